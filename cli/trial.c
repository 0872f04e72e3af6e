#include "cli/trial.h"
#include "cli/build.h"
#include "cli/ranks.h"
#include "codegen/codegen.h"
#include "ir/base/file.h"
#include "ir/pass.h"
#include <string.h>

enum { TEXT_BYTES = 1 << 18, LETTERS = 26, MOST_ARGUMENTS = 14 };

bd_status bd_trial_build(bd_ctx *ctx, const bd_module *train, const bd_plan *plan,
                         const char *folder, bd_trial *out) {
  bd_module *sharded;
  *out = (bd_trial){.plan = *plan, .folder = folder};
  BD_TRY(bd_apply_plan(ctx, train, plan, &sharded));
  BD_TRY(bd_partition(ctx, sharded, &out->spmd));
  BD_TRY(bd_lower_exec(ctx, out->spmd, plan, &out->exec));
  return bd_build_folder(ctx, train, out->exec, plan, &(bd_build_options){.executable = true},
                         folder);
}

bd_status bd_trial_write_text(bd_ctx *ctx, const char *path, int64_t vocabulary) {
  char *text = bd_arena_array(ctx->arena, TEXT_BYTES, 1);
  uint32_t first = vocabulary > 'z' ? 'a' : 0;
  uint32_t count = first || vocabulary > LETTERS ? LETTERS : (uint32_t)vocabulary;
  for (uint32_t i = 0, state = 1; i < TEXT_BYTES; i++, state = state * 1664525 + 1013904223)
    text[i] = (char)(first + (state >> 24) % count);
  return bd_file_write_unsynced(ctx, path, text, TEXT_BYTES);
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
