// The ranks of a program that needs no launcher of its own.
#include "cli/child.h"
#include "cli/process.h"
#include "cli/stop.h"
#include "ir/base/clock.h"
#include "runtime/braid_rt_abi.h"
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct team {
  pid_t group; // of the first rank
  int running;
  const pid_t *ranks;           // by number
  int first_failure;            // exit status, or 0
  pid_t failed;                 // whose it is
  double failed_at, stopped_at; // 0: not
} team;

// A port whose successor is free at the moment: that is where rank 0 listens.
static int find_port(void) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t bytes = sizeof address;
  int port = 0, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return 0;
  if (bind(fd, (const struct sockaddr *)&address, bytes) == 0 &&
      getsockname(fd, (struct sockaddr *)&address, &bytes) == 0)
    port = ntohs(address.sin_port) - 1;
  close(fd);
  return port;
}

static int start_ranks(bd_ctx *ctx, char *const *argv, int ranks, const char *log,
                       const sigset_t *mask, team *t) {
  uint64_t job = 0;
  int port = find_port(), error = port > 0 ? 0 : EADDRNOTAVAIL;
  if (getrandom(&job, sizeof job, 0) != (ssize_t)sizeof job) error = EAGAIN;
  const char *count = bd_intern_f(ctx, "%d", ranks);
  pid_t *started = BD_NEW_ARRAY(ctx->arena, pid_t, ranks);
  t->ranks = started;
  for (int r = 0; r < ranks && !error; ++r) {
    const char *rank = bd_intern_f(ctx, "%d", r);
    const bd_variable variables[] = {
        {"RANK", rank},
        {"WORLD_SIZE", count},
        {"LOCAL_RANK", rank},
        {"LOCAL_WORLD_SIZE", count},
        {"MASTER_ADDR", "127.0.0.1"},
        {"MASTER_PORT", bd_intern_f(ctx, "%d", port)},
        {"BRAID_JOB", bd_intern_f(ctx, "%016llx", (unsigned long long)job)}};
    pid_t child = 0;
    error = bd_child_start(&(bd_child){.argv = argv,
                                       .log = log,
                                       .group = t->group,
                                       .variable_count = sizeof variables / sizeof *variables,
                                       .variables = variables},
                           mask, &child);
    if (error) break;
    started[r] = child;
    t->running++;
    if (r == 0) t->group = child;
  }
  return error;
}

// Takes notice of ranks that have ended. False when they are lost.
static bool reap(team *t) {
  while (t->running > 0) {
    int state;
    pid_t ended = waitpid(-t->group, &state, WNOHANG);
    if (ended == 0) return true;
    if (ended < 0 && errno == EINTR) continue;
    if (ended < 0) return false;
    t->running--;
    bool killed = WIFSIGNALED(state) && t->stopped_at == 0;
    int code = WIFSIGNALED(state) ? 128 + WTERMSIG(state) : WEXITSTATUS(state);
    bool says_more = killed && t->first_failure == BD_RT_EXIT_DEAD_RANK;
    if (code == 0 || (t->first_failure && !says_more)) continue;
    if (!t->first_failure) t->failed_at = bd_clock_seconds();
    t->first_failure = code;
    t->failed = ended;
  }
  return true;
}

// Ranks of a failed or stopped team get SIGTERM, and SIGKILL when that does not help.
static void press(team *t, int signal, int *out_stopped_by) {
  double now = bd_clock_seconds();
  bool stop = signal > 0 && signal != SIGCHLD && signal != SIGUSR1;
  if (signal == SIGUSR1) kill(-t->group, SIGUSR1);
  bool late = t->failed_at > 0 && now - t->failed_at > BD_GRACE_SECONDS;
  if (t->stopped_at > 0) {
    double since = now - t->stopped_at;
    if (since > BD_GRACE_SECONDS || (stop && since > BD_SAME_STOP_SECONDS))
      kill(-t->group, SIGKILL);
  } else if (stop || late) {
    if (stop) *out_stopped_by = signal;
    t->stopped_at = now;
    kill(-t->group, SIGTERM);
  }
}

bd_status bd_process_run_ranks(bd_ctx *ctx, char *const *argv, int ranks, const char *log,
                               bd_process_end *out) {
  static const struct timespec tick = {.tv_sec = 1};
  sigset_t watched = bd_child_signals(), mask;
  team t = {0};
  *out = (bd_process_end){0};
  sigprocmask(SIG_BLOCK, &watched, &mask);
  int error = start_ranks(ctx, argv, ranks, log, &mask, &t);
  if (error && t.running > 0) kill(-t.group, SIGKILL);
  bool known = reap(&t);
  while (known && t.running > 0) {
    press(&t, sigtimedwait(&watched, NULL, &tick), &out->stopped_by);
    known = reap(&t);
  }
  bd_stop_return(out->stopped_by, &mask);
  if (error)
    return bd_fail(ctx, BD_EXTERNAL, BD_NOWHERE, "cannot start '%s': %s", argv[0], strerror(error));
  if (!known) return bd_fail(ctx, BD_EXTERNAL, BD_NOWHERE, "lost the ranks of '%s'", argv[0]);
  out->exit_code = t.first_failure;
  while (t.failed && t.ranks[out->rank] != t.failed)
    out->rank++;
  return BD_OK;
}
