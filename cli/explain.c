// `braid explain`: a plan in words, and its predictions as JSON.
#include "cli/explain.h"
#include "cli/command.h"
#include "ir/base/file.h"
#include <math.h>

#define PLAN_LIMIT_BYTES ((size_t)64 << 20)

bd_step_split bd_explain_split(const bd_plan *plan) {
  bd_step_split split = {0};
  double slowest = -1, sync = 0;
  int micro_batches = bd_plan_micro_batches(plan);
  for (int i = 0; i < plan->stages; i++) {
    const bd_stage_prediction *stage = &plan->predicted[i];
    if (stage->sync_seconds > sync) sync = stage->sync_seconds;
    if (stage->forward_seconds + stage->backward_seconds <= slowest) continue;
    slowest = stage->forward_seconds + stage->backward_seconds;
    split.forward_seconds = micro_batches * stage->forward_seconds;
    split.backward_seconds = micro_batches * stage->backward_seconds;
  }
  split.sync_seconds = sync;
  split.bubble_seconds = fmax(0, plan->step_seconds - micro_batches * fmax(slowest, 0) - sync);
  return split;
}

int64_t bd_explain_units(const bd_plan *plan) {
  return plan->global_batch * (plan->sequence ? plan->sequence : 1);
}

static bd_status run(bd_ctx *ctx, const bd_arguments *arguments) {
  const char *path = arguments->operand;
  if (bd_is_folder(path)) path = bd_path_join(ctx, path, "plan.json");
  char *data;
  size_t bytes;
  bd_plan plan;
  const bd_json *root;
  bd_told_strategy *strategies;
  bd_text text = bd_text_init(ctx->arena);
  BD_TRY(bd_file_read(ctx, path, PLAN_LIMIT_BYTES, &data, &bytes));
  BD_TRY(bd_plan_parse(ctx, path, data, bytes, NULL, &plan));
  BD_TRY(bd_json_parse(ctx, path, data, bytes, &root));
  if (!bd_json_find(root, "predicted"))
    return bd_fail(
        ctx, BD_INVALID, bd_loc_file(path),
        "the plan holds no predictions; 'braid compile --plan FILE --emit plan' adds them");
  BD_TRY(bd_explain_read(ctx, &plan, root, &strategies));
  if (bd_argument_flag(arguments, "--json"))
    bd_explain_json(&plan, strategies, &text);
  else
    bd_explain_page(&plan, strategies, bd_argument_flag(arguments, "--ops"), &text);
  fwrite(text.data, 1, text.length, stdout);
  return BD_OK;
}

static const bd_option options[] = {
    {"--json", NULL, "as JSON, for programs (docs/plan.md)"},
    {"--ops", NULL, "how the mesh splits every op, too"},
    {0},
};
const bd_command bd_command_explain = {
    .name = "explain",
    .summary = "say what a plan does and what it is predicted to cost",
    .operand = "PLAN",
    .options = options,
    .details = "PLAN is a plan file, or the output folder of 'braid compile'.\n\n"
               "example: braid explain out\n",
    .run = run,
};
