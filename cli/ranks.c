#include "cli/ranks.h"
#include "cli/mpirun.h"
#include <string.h>

#define RANKS_WORD "{ranks}"

bool bd_ranks_by_mpirun(const bd_ranks *ranks) {
  return !ranks->cuda && !ranks->launcher;
}

// The program and its arguments, behind `first` words; ends with NULL.
static char **line_of(bd_ctx *ctx, const bd_ranks *ranks, int first) {
  const char **line = BD_NEW_ARRAY(ctx->arena, const char *, first + ranks->argument_count + 2);
  line[first] = ranks->program;
  for (int i = 0; i < ranks->argument_count; i++)
    line[first + 1 + i] = ranks->arguments[i];
  return (char **)line;
}

// A word of the launcher, with the number of ranks put in.
static const char *fill_word(bd_ctx *ctx, const bd_ranks *ranks, const char *word) {
  const char *hole = strstr(word, RANKS_WORD);
  if (!hole) return word;
  return bd_intern_f(ctx, "%.*s%d%s", (int)(hole - word), word, ranks->count,
                     hole + strlen(RANKS_WORD));
}

static char **launcher_line(bd_ctx *ctx, const bd_ranks *ranks) {
  static const char blanks[] = " \t\n";
  int count = 0;
  for (const char *at = ranks->launcher; *(at += strspn(at, blanks)); at += strcspn(at, blanks))
    count++;
  char **line = line_of(ctx, ranks, count);
  const char *at = ranks->launcher;
  for (int i = 0; i < count; i++) {
    at += strspn(at, blanks);
    size_t length = strcspn(at, blanks);
    line[i] = (char *)fill_word(ctx, ranks, bd_intern(ctx, at, length));
    at += length;
  }
  return line;
}

bd_status bd_ranks_run(bd_ctx *ctx, const bd_ranks *ranks, bd_process_end *out) {
  if (ranks->launcher) return bd_process_run(ctx, launcher_line(ctx, ranks), ranks->log, out);
  if (ranks->cuda)
    return bd_process_run_ranks(ctx, line_of(ctx, ranks, 0), ranks->count, ranks->log, out);
  BD_TRY(bd_mpirun_check(ctx));
  return bd_process_run(
      ctx,
      bd_mpirun_line(ctx, ranks->count, ranks->program, ranks->argument_count, ranks->arguments),
      ranks->log, out);
}
