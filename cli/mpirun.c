#include "cli/mpirun.h"
#include <unistd.h>

char **bd_mpirun_line(bd_ctx *ctx, int ranks, const char *program, int count,
                      const char *const *arguments) {
  const char *const head[] = {
      "mpirun", "-n",    bd_intern_f(ctx, "%d", ranks), "--quiet", "--oversubscribe", "--bind-to",
      "none",   "--mca", "odls_base_sigkill_timeout",   "1"};
  enum { HEAD = sizeof head / sizeof *head };
  const char **line = BD_NEW_ARRAY(ctx->arena, const char *, HEAD + 3 + count);
  int at = 0;
  while (at < HEAD)
    line[at] = head[at], at++;
  if (geteuid() == 0) line[at++] = "--allow-run-as-root";
  line[at++] = program;
  for (int i = 0; i < count; i++)
    line[at++] = arguments[i];
  return (char **)line;
}
