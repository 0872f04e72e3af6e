// The output folder: sources, kernels, runtime, plan, and the executable.
#ifndef BD_CLI_BUILD_H
#define BD_CLI_BUILD_H
#include "codegen/codegen.h"
#include "ir/base/text.h"
#include "ir/partition.h"

// A file beside those of the program, by a name that BD_RT_PROGRAM_FILES has.
typedef struct bd_build_file {
  bd_emit_extra listed; // its name, and what the README says of it
  const bd_text *text;
} bd_build_file;

typedef struct bd_build_options {
  bool executable; // make is run as well
  // The folder of a program for the same target, built already, which loses its runtime and what
  // was built of it to this one; NULL: there is none.
  const char *earlier;
  int file_count;
  const bd_build_file *files;
} bd_build_options;

// Writes everything to a folder beside `out` and moves it into place when whole. Stops are held by
// the caller, and leave nothing. Errors: BD_EXTERNAL with the compiler's log named, or the stop.
BD_NODISCARD bd_status bd_build_folder(bd_ctx *ctx, const bd_module *train, const bd_module *exec,
                                       const bd_plan *plan, const bd_build_options *build,
                                       const char *out);
// Fills a folder that stands with the program `evaluate` of functions (codegen/evaluation.h). As
// above.
BD_NODISCARD bd_status bd_build_evaluation(bd_ctx *ctx, const bd_module *evaluation,
                                           const char *folder);
#endif
