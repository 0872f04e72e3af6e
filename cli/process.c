#include "cli/process.h"
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

bd_status bd_process_run(bd_ctx *ctx, char *const *argv, const char *log, int *out_exit) {
  posix_spawn_file_actions_t actions;
  if (posix_spawn_file_actions_init(&actions) != 0)
    return bd_fail(ctx, BD_EXTERNAL, BD_NOWHERE, "cannot prepare to start '%s'", argv[0]);
  int error = 0;
  if (log) {
    error = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log,
                                             O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (!error)
      error = posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  }
  pid_t child = 0;
  if (!error) error = posix_spawnp(&child, argv[0], &actions, NULL, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error)
    return bd_fail(ctx, BD_EXTERNAL, BD_NOWHERE, "cannot start '%s': %s; is it installed?",
                   argv[0], strerror(error));
  int state;
  while (waitpid(child, &state, 0) < 0)
    if (errno != EINTR)
      return bd_fail(ctx, BD_EXTERNAL, BD_NOWHERE, "lost the process of '%s'", argv[0]);
  *out_exit = WIFSIGNALED(state) ? 128 + WTERMSIG(state) : WEXITSTATUS(state);
  return BD_OK;
}
