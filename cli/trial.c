#include "cli/trial.h"
#include "cli/ranks.h"
#include "codegen/codegen.h"
#include "ir/base/file.h"
#include <string.h>

enum { MOST_TOKENS = 1 << 16, LEAST_LENGTH = 1 << 17, MOST_ARGUMENTS = 14 };

bd_status bd_trial_build(bd_ctx *ctx, const bd_module *train, const bd_plan *plan,
                         const bd_build_options *build, const char *folder, bd_trial *out) {
  bd_module *sharded;
  *out = (bd_trial){.plan = *plan, .folder = folder};
  BD_TRY(bd_apply_plan(ctx, train, plan, &sharded));
  BD_TRY(bd_partition(ctx, sharded, &out->spmd));
  BD_TRY(bd_lower_exec(ctx, out->spmd, plan, &out->exec));
  return bd_build_folder(ctx, train, out->exec, plan, build, folder);
}

bd_status bd_trial_write_tokens(bd_ctx *ctx, const char *path, int64_t vocabulary,
                                int64_t sequence) {
  uint32_t bound = vocabulary < MOST_TOKENS ? (uint32_t)vocabulary : MOST_TOKENS;
  size_t count = (size_t)(sequence < LEAST_LENGTH / 2 ? LEAST_LENGTH : 2 * sequence);
  uint16_t *tokens = BD_NEW_ARRAY(ctx->arena, uint16_t, count);
  uint32_t state = 1;
  for (size_t i = 0; i < count; i++, state = state * 1664525 + 1013904223)
    tokens[i] = (uint16_t)((state >> 8) % bound);
  return bd_file_write_unsynced(ctx, path, tokens, count * sizeof *tokens);
}

static void add(const char **arguments, int *count, const char *option, const char *value) {
  if (!value) return;
  arguments[(*count)++] = option;
  arguments[(*count)++] = value;
}

static const char *inside(bd_ctx *ctx, const bd_trial *p, const char *name) {
  return name ? bd_path_join(ctx, p->folder, name) : NULL;
}

bd_status bd_trial_train(bd_ctx *ctx, const bd_trial *p, const bd_training *t,
                         bd_process_end *out) {
  const char *arguments[MOST_ARGUMENTS];
  bd_ranks ranks = {.program = bd_path_join(ctx, p->folder, "train"),
                    .cuda = strcmp(p->plan.target, "cuda") == 0,
                    .count = bd_plan_ranks(&p->plan),
                    .launcher = t->launcher,
                    .arguments = arguments,
                    .log = inside(ctx, p, "log")};
  int *count = &ranks.argument_count;
  add(arguments, count, "--data", t->data);
  add(arguments, count, "--tokenizer", t->tokenizer);
  add(arguments, count, "--steps", bd_intern_f(ctx, "%lld", (long long)t->steps));
  add(arguments, count, "--lr", "0");
  add(arguments, count, "--metrics", inside(ctx, p, t->metrics));
  add(arguments, count, "--profile", inside(ctx, p, t->profile));
  add(arguments, count, "--tune", inside(ctx, p, t->products));
  return bd_ranks_run(ctx, &ranks, out);
}
