#include "cli/child.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
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
  sigprocmask(SIG_SETMASK, mask, NULL);
  bool ready = redirect("/dev/null", O_RDONLY, STDIN_FILENO);
  for (int i = 0; i < child->variable_count; ++i)
    ready = ready && setenv(child->variables[i].name, child->variables[i].value, 1) == 0;
  if (child->log)
    ready = ready && redirect(child->log, O_WRONLY | O_CREAT | O_TRUNC, STDOUT_FILENO) &&
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

static const int stops[] = {SIGINT, SIGTERM, SIGHUP};

sigset_t bd_child_signals(void) {
  struct sigaction action;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  for (size_t i = 0; i < sizeof stops / sizeof *stops; i++)
    if (sigaction(stops[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
      sigaddset(&set, stops[i]);
  signal(SIGCHLD, SIG_DFL);
  return set;
}

void bd_stops_hold(sigset_t *out_mask) {
  sigset_t set = bd_child_signals();
  sigprocmask(SIG_BLOCK, &set, out_mask);
}

bool bd_stops_came(void) {
  sigset_t came;
  sigpending(&came);
  for (size_t i = 0; i < sizeof stops / sizeof *stops; i++)
    if (sigismember(&came, stops[i]) == 1) return true;
  return false;
}

int bd_stops_release(const sigset_t *mask) {
  static const struct timespec at_once = {0};
  sigset_t set = bd_child_signals();
  sigdelset(&set, SIGCHLD);
  int came = sigtimedwait(&set, NULL, &at_once);
  sigprocmask(SIG_SETMASK, mask, NULL);
  return came > 0 ? came : 0;
}
