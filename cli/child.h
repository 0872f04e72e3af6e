// One process that braid starts. See process.h for what the commands use.
#ifndef BD_CLI_CHILD_H
#define BD_CLI_CHILD_H
#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

// Longer than launchers give their ranks between SIGTERM and SIGKILL; and how soon a second signal
// may still mean the first.
enum { BD_GRACE_SECONDS = 20, BD_SAME_STOP_SECONDS = 1 };

typedef struct bd_variable {
  const char *name, *value;
} bd_variable;

typedef struct bd_child {
  char *const *argv; // argv[0] is looked up on PATH
  const char *log;   // its output is added to this file; NULL: it is that of braid
  pid_t group;       // the process group it joins; 0: one of its own
  int variable_count;
  const bd_variable *variables; // added to its environment
} bd_child;

// Starts it with `mask` of signals, but for stops (cli/stop.h), and nothing to read; it is told by
// SIGTERM when braid dies. Returns 0, or an errno when it cannot be started.
int bd_child_start(const bd_child *what, const sigset_t *mask, pid_t *out_child);

// The signals that are to stop children: those that braid does not ignore; and a child's end.
sigset_t bd_child_signals(void);
#endif
