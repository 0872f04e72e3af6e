#include "cli/process.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// Longer than launchers give their ranks between SIGTERM and SIGKILL.
enum { GRACE_SECONDS = 20, SAME_STOP_SECONDS = 1 };

static bool redirect(const char *path, int flags, int to) {
  int file = open(path, flags, 0644);
  return file >= 0 && (file == to || (dup2(file, to) == to && close(file) == 0));
}

// In the child. Tells what went wrong through `report`, which a successful start closes.
static _Noreturn void become(char *const *argv, const char *log, pid_t parent, const sigset_t *mask,
                             int report) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);
  sigprocmask(SIG_SETMASK, mask, NULL);
  bool ready = redirect("/dev/null", O_RDONLY, STDIN_FILENO);
  if (log)
    ready = ready && redirect(log, O_WRONLY | O_CREAT | O_TRUNC, STDOUT_FILENO) &&
            dup2(STDOUT_FILENO, STDERR_FILENO) == STDERR_FILENO;
  if (ready) execvp(argv[0], argv);
  int error = errno;
  while (write(report, &error, sizeof error) < 0 && errno == EINTR)
    continue;
  _exit(127);
}

// Returns 0 with the child, or an errno.
static int start(char *const *argv, const char *log, const sigset_t *mask, pid_t *out_child) {
  int report[2], error = 0;
  if (pipe2(report, O_CLOEXEC) != 0) return errno;
  pid_t parent = getpid(), child = fork();
  if (child == 0) become(argv, log, parent, mask, report[1]);
  if (child < 0) error = errno;
  close(report[1]);
  if (child > 0) {
    setpgid(child, child);
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

// The signals that are to stop the child: those that braid does not ignore; and its end.
static sigset_t watched_signals(void) {
  static const int stops[] = {SIGINT, SIGTERM, SIGHUP};
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

static double now_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// Waits for the child's end; returns false when it is lost.
static bool wait_for(pid_t child, const sigset_t *watched, int *out_state, int *out_stopped_by) {
  static const struct timespec tick = {.tv_sec = 1};
  double stopped_at = 0;
  for (;;) {
    pid_t ended = waitpid(child, out_state, WNOHANG);
    if (ended == child) return true;
    if (ended < 0 && errno != EINTR) return false;
    int signal = sigtimedwait(watched, NULL, &tick);
    bool stop = signal > 0 && signal != SIGCHLD;
    if (stop && !*out_stopped_by) {
      *out_stopped_by = signal;
      stopped_at = now_seconds();
      kill(-child, SIGTERM);
    } else if (*out_stopped_by) {
      // A second signal some time after the first, or patience at its end.
      double since = now_seconds() - stopped_at;
      if (since > GRACE_SECONDS || (stop && since > SAME_STOP_SECONDS)) kill(-child, SIGKILL);
    }
  }
}

bd_status bd_process_run(bd_ctx *ctx, char *const *argv, const char *log, bd_process_end *out) {
  sigset_t watched = watched_signals(), mask;
  pid_t child = 0;
  int state = 0;
  *out = (bd_process_end){0};
  sigprocmask(SIG_BLOCK, &watched, &mask);
  int error = start(argv, log, &mask, &child);
  bool known = !error && wait_for(child, &watched, &state, &out->stopped_by);
  // Once told to stop, braid ends by itself: more signals must not keep it from cleaning up.
  if (!out->stopped_by) sigprocmask(SIG_SETMASK, &mask, NULL);
  if (error)
    return bd_fail(ctx, BD_EXTERNAL, BD_NOWHERE, "cannot start '%s': %s; is it installed?", argv[0],
                   strerror(error));
  if (!known) return bd_fail(ctx, BD_EXTERNAL, BD_NOWHERE, "lost the process of '%s'", argv[0]);
  out->exit_code = WIFSIGNALED(state) ? 128 + WTERMSIG(state) : WEXITSTATUS(state);
  return BD_OK;
}
