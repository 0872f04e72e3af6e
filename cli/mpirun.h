// Starting the ranks of programs for the CPU.
#ifndef BD_CLI_MPIRUN_H
#define BD_CLI_MPIRUN_H
#include "ir/base/context.h"

// Whether mpirun has the temporary files that it needs, before it is started. Errors: BD_EXTERNAL.
BD_NODISCARD bd_status bd_mpirun_check(bd_ctx *ctx);

// The command line that runs `program` with `count` arguments as `ranks` ranks of this machine, not
// bound to cores. Ends with NULL; lives in ctx->arena.
char **bd_mpirun_line(bd_ctx *ctx, int ranks, const char *program, int count,
                      const char *const *arguments);
#endif
