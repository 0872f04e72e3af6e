// A fused run of pointwise ops, at whatever point a body is.
#ifndef BD_CODEGEN_KERNEL_POINTWISE_H
#define BD_CODEGEN_KERNEL_POINTWISE_H
#include "codegen/kernel/gen.h"

typedef struct bd_gen_run {
  int first_op, op_count;
  bd_access *access;   // per value of the function; those that the run has in memory are set
  LLVMValueRef *value; // per value, in lanes; what is neither loaded nor made is set by the body
  LLVMValueRef *exact; // per value that is made, before it is rounded: what is stored
  bd_access *table;    // per op: the numbers of a constant, or an index that must not be merged
  bd_access number;    // strides of an element's logical number within its sample
  int rank;
  const bd_op *failed; // an op that no kernel computes on these types, or NULL
} bd_gen_run;

// Ops [first, first + count) of the kernel's function. Loop d of the kernel is along dimension d of
// their results. Lives in the context's arena.
bd_gen_run bd_gen_run_open(bd_gen *g, int first, int count);
// Loads, computes and stores.
void bd_gen_run_point(bd_gen *g, bd_gen_run *run);
// The same in parts, at one point: what memory holds, per operand of the kernel; the run's values
// of that; and its results to memory.
void bd_gen_run_fetch(bd_gen *g, const bd_gen_run *run, LLVMValueRef *out_fetched);
void bd_gen_run_compute(bd_gen *g, bd_gen_run *run, const LLVMValueRef *fetched);
void bd_gen_run_store(bd_gen *g, const bd_gen_run *run);
// What one op, dropout, makes of x, f32 in lanes (dropout.c).
LLVMValueRef bd_gen_dropout(bd_gen *g, const bd_gen_run *run, const bd_op *op, LLVMValueRef x);
bool bd_gen_run_has_dropout(const bd_gen *g, const bd_gen_run *run);
bool bd_gen_run_has_erf(const bd_gen *g, const bd_gen_run *run); // or a GELU made of it
// How many operands it fetches.
int bd_gen_run_operands(const bd_gen *g, const bd_gen_run *run);
// All that depends on the kernel's loops, into as many as bd_gen_run_access_count says.
int bd_gen_run_access_count(const bd_gen *g, const bd_gen_run *run);
int bd_gen_run_accesses(const bd_gen *g, bd_gen_run *run, bd_access **out);
// Errors: BD_UNSUPPORTED when there is no kernel for one of the ops.
BD_NODISCARD bd_status bd_gen_run_close(bd_gen *g, const bd_gen_run *run);
#endif
