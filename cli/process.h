// Running other programs.
#ifndef BD_CLI_PROCESS_H
#define BD_CLI_PROCESS_H
#include "ir/base/context.h"

typedef struct bd_process_end {
  int exit_code;  // 128 + the signal that ended it
  int stopped_by; // the signal that told braid to stop meanwhile, or 0
  int rank;       // of several: whose code it is
} bd_process_end;

// Runs argv[0] (looked up on PATH) and waits for it. `log`: a file to which its output is added, or
// NULL. It is a process group of its own with nothing to read. Stops of braid (cli/stop.h) end the
// group by SIGTERM, and by SIGKILL when that does not help, and are held from then on; when braid
// dies, it is told by SIGTERM. Errors: BD_EXTERNAL when it cannot be started.
BD_NODISCARD bd_status bd_process_run(bd_ctx *ctx, char *const *argv, const char *log,
                                      bd_process_end *out_end);

// Runs argv[0] as `ranks` processes of this machine, which learn their places from RANK,
// WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT and BRAID_JOB, and waits for
// all. `log` and signals are as above. When one fails the others may end by themselves for a while,
// then they are ended; the exit status is that of the first that failed, or of one that a signal
// ended where that one only heard of others' end.
BD_NODISCARD bd_status bd_process_run_ranks(bd_ctx *ctx, char *const *argv, int ranks,
                                            const char *log, bd_process_end *out_end);
#endif
