#include "cli/child.h"
#include "cli/stop.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static bool redirect(const char *path, int flags, int to) {
  int file = open(path, flags, 0644);
  return file >= 0 && (file == to || (dup2(file, to) == to && close(file) == 0));
}

// In the child. Tells what went wrong through `report`, which a successful start closes.
static _Noreturn void become(const bd_child *child, pid_t parent, const sigset_t *mask,
                             int report) {
  setpgid(0, child->group);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);
  sigset_t own = *mask;
  bd_stop_remove(&own);
  bd_stop_unwatch();
  sigprocmask(SIG_SETMASK, &own, NULL);
  bool ready = redirect("/dev/null", O_RDONLY, STDIN_FILENO);
  for (int i = 0; i < child->variable_count; ++i)
    ready = ready && setenv(child->variables[i].name, child->variables[i].value, 1) == 0;
  if (child->log)
    ready = ready && redirect(child->log, O_WRONLY | O_CREAT | O_APPEND, STDOUT_FILENO) &&
            dup2(STDOUT_FILENO, STDERR_FILENO) == STDERR_FILENO;
  if (ready) execvp(child->argv[0], child->argv);
  int error = errno;
  while (write(report, &error, sizeof error) < 0 && errno == EINTR)
    continue;
  _exit(127);
}

int bd_child_start(const bd_child *what, const sigset_t *mask, pid_t *out_child) {
  int report[2], error = 0;
  if (pipe2(report, O_CLOEXEC) != 0) return errno;
  pid_t parent = getpid(), child = fork();
  if (child == 0) become(what, parent, mask, report[1]);
  if (child < 0) error = errno;
  close(report[1]);
  if (child > 0) {
    setpgid(child, what->group ? what->group : child);
    ssize_t got;
    while ((got = read(report[0], &error, sizeof error)) < 0 && errno == EINTR)
      continue;
    if (got != (ssize_t)sizeof error) error = 0;
    if (error) waitpid(child, NULL, 0);
  }
  close(report[0]);
  *out_child = child;
  return error;
}

sigset_t bd_child_signals(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  sigaddset(&set, SIGUSR1);
  bd_stop_add(&set);
  signal(SIGCHLD, SIG_DFL);
  return set;
}
