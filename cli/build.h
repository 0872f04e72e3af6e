// The output folder: sources, kernels, runtime, plan, and the executable.
#ifndef BD_CLI_BUILD_H
#define BD_CLI_BUILD_H
#include "ir/partition.h"

// Writes everything to a folder beside `out` and moves it into place when whole; with `executable`
// also runs make in it. Stops are held by the caller, and leave nothing. Errors: BD_EXTERNAL with
// the compiler's log named, or the stop.
BD_NODISCARD bd_status bd_build_folder(bd_ctx *ctx, const bd_module *train, const bd_module *exec,
                                       const bd_plan *plan, bool executable, const char *out);
// Fills a folder that stands with the program `evaluate` of functions (codegen/evaluation.h). As
// above.
BD_NODISCARD bd_status bd_build_evaluation(bd_ctx *ctx, const bd_module *evaluation,
                                           const char *folder);
#endif
