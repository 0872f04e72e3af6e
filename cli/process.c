#include "cli/process.h"
#include "cli/child.h"
#include "cli/stop.h"
#include "ir/base/clock.h"
#include <errno.h>
#include <string.h>
#include <sys/wait.h>

// Waits for the child's end; returns false when it is lost.
static bool wait_for(pid_t child, const sigset_t *watched, int *out_state, int *out_stopped_by) {
  static const struct timespec tick = {.tv_sec = 1};
  double stopped_at = 0;
  for (;;) {
    pid_t ended = waitpid(child, out_state, WNOHANG);
    if (ended == child) return true;
    if (ended < 0 && errno != EINTR) return false;
    int signal = sigtimedwait(watched, NULL, &tick);
    bool stop = signal > 0 && signal != SIGCHLD && signal != SIGUSR1;
    if (signal == SIGUSR1) kill(child, SIGUSR1); // mpirun passes it on to the ranks
    if (stop && !*out_stopped_by) {
      *out_stopped_by = signal;
      stopped_at = bd_clock_seconds();
      kill(-child, SIGTERM);
    } else if (*out_stopped_by) {
      // A second signal some time after the first, or patience at its end.
      double since = bd_clock_seconds() - stopped_at;
      if (since > BD_GRACE_SECONDS || (stop && since > BD_SAME_STOP_SECONDS)) kill(-child, SIGKILL);
    }
  }
}

bd_status bd_process_run(bd_ctx *ctx, char *const *argv, const char *log, bd_process_end *out) {
  sigset_t watched = bd_child_signals(), mask;
  pid_t child = 0;
  int state = 0;
  *out = (bd_process_end){0};
  sigprocmask(SIG_BLOCK, &watched, &mask);
  int error = bd_child_start(&(bd_child){.argv = argv, .log = log}, &mask, &child);
  bool known = !error && wait_for(child, &watched, &state, &out->stopped_by);
  // Once told to stop, braid ends by itself: more signals must not keep it from cleaning up.
  bd_stop_return(out->stopped_by, &mask);
  if (error)
    return bd_fail(ctx, BD_EXTERNAL, BD_NOWHERE, "cannot start '%s': %s; is it installed?", argv[0],
                   strerror(error));
  if (!known) return bd_fail(ctx, BD_EXTERNAL, BD_NOWHERE, "lost the process of '%s'", argv[0]);
  out->exit_code = WIFSIGNALED(state) ? 128 + WTERMSIG(state) : WEXITSTATUS(state);
  return BD_OK;
}
