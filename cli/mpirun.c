#include "cli/mpirun.h"
#include "cli/temporary.h"
#include <unistd.h>

// Open MPI shares two segments of 4 MiB and some small files with its ranks.
#define TEMPORARY_BYTES ((int64_t)12 << 20)

bd_status bd_mpirun_check(bd_ctx *ctx) {
  return bd_temporary_check(ctx, "mpirun", TEMPORARY_BYTES);
}

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
