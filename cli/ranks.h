// Starting the ranks of a compiled program on this machine, or by a launcher.
#ifndef BD_CLI_RANKS_H
#define BD_CLI_RANKS_H
#include "cli/process.h"

typedef struct bd_ranks {
  const char *program; // a path with a slash
  bool cuda;           // what it is for: CPU ranks are started by mpirun, those of GPUs by braid
  int count;
  const char *launcher; // words with blanks between them that start them instead; NULL: none do
  int argument_count;
  const char *const *arguments; // of the program
  const char *log;              // as of bd_process_run
} bd_ranks;

// Whether mpirun starts them.
bool bd_ranks_by_mpirun(const bd_ranks *ranks);

// Runs them and waits for all. In a launcher's words `{ranks}` stands for their number; no shell
// reads them, and program and arguments follow. `*out_end` as of bd_process_run or
// bd_process_run_ranks. Errors: BD_EXTERNAL when they cannot be started.
BD_NODISCARD bd_status bd_ranks_run(bd_ctx *ctx, const bd_ranks *ranks, bd_process_end *out_end);
#endif
