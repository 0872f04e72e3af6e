// `braid explain`: a plan in words, and its predictions as JSON.
#include "cli/explain.h"
#include "cli/command.h"
#include "ir/base/file.h"

#define PLAN_LIMIT_BYTES ((size_t)64 << 20)

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
    bd_explain_json(ctx, &plan, strategies, &text);
  else
    bd_explain_page(ctx, &plan, strategies, bd_argument_flag(arguments, "--ops"), &text);
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
