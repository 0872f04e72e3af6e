// From spmd modules to a folder of C, kernels and tables that builds into one executable.
#ifndef BD_CODEGEN_CODEGEN_H
#define BD_CODEGEN_CODEGEN_H
#include "ir/partition.h"

// spmd -> exec: fuses, places every value in its segment, fixes the schedule. Asserts that the
// bytes are bd_memory_of_stage's.
BD_NODISCARD bd_status bd_lower_exec(bd_ctx *ctx, const bd_module *spmd, const bd_plan *plan,
                                     bd_module **out_exec);

// How the README of a program's folder begins: by that it is known as braid's.
#define BD_README_START "A training program, written by braid."

// A file that its maker puts into the folder beside the program's.
typedef struct bd_emit_extra {
  const char *name, *about; // what it is, for the README: one line
} bd_emit_extra;

// Writes stage*.c, main.c (program tables), kernels (.ll, .s or .ptx), a Makefile and a README,
// which names `extras` as well, to `folder`, which exists. Nothing of a model file's text reaches
// the sources but through escaped string literals.
BD_NODISCARD bd_status bd_emit(bd_ctx *ctx, const bd_module *exec, const bd_plan *plan,
                               int extra_count, const bd_emit_extra *extras, const char *folder);
#endif
