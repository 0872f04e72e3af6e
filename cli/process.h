// Starting other programs without a shell.
#ifndef BD_CLI_PROCESS_H
#define BD_CLI_PROCESS_H
#include "ir/base/context.h"

// Runs argv[0] (found on PATH) and waits; *out_exit is its status, 128 + signal when it was killed.
// With `log`, its output goes to that file. Errors: BD_EXTERNAL when it cannot be started.
BD_NODISCARD bd_status bd_process_run(bd_ctx *ctx, char *const *argv, const char *log, int *out_exit);
#endif
