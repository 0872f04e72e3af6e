// `braid explain`: a plan in words, and its predictions as JSON.
#include "cli/explain.h"
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/machine.h"
#include "cli/told_check.h"
#include "cli/why.h"
#include "ir/base/file.h"

#define PLAN_LIMIT_BYTES ((size_t)64 << 20)

static bd_status parse(bd_ctx *ctx, const char *path, const char *data, size_t bytes,
                       const bd_json **out_root, bd_told_plan *out) {
  const bd_json *root;
  *out = (bd_told_plan){.path = path, .data = data, .bytes = bytes};
  BD_TRY(bd_plan_parse(ctx, path, data, bytes, NULL, &out->plan));
  if (out->plan.cluster) out->plan.cluster = bd_machine_beside(ctx, path, out->plan.cluster);
  BD_TRY(bd_json_parse(ctx, path, data, bytes, &root));
  if (!bd_json_find(root, "predicted"))
    return bd_fail(
        ctx, BD_INVALID, bd_loc_file(path),
        "the plan holds no predictions; 'braid compile --plan FILE --emit plan' adds them");
  *out_root = root;
  return bd_explain_read(ctx, &out->plan, root, &out->strategies);
}

bd_status bd_told_parse(bd_ctx *ctx, const char *path, const char *data, size_t bytes,
                        bd_told_plan *out) {
  const bd_json *root;
  return parse(ctx, path, data, bytes, &root, out);
}

static bd_status load(bd_ctx *ctx, const char *path, bool with_planner, bd_told_plan *out) {
  const bd_json *root;
  char *data;
  size_t bytes;
  if (bd_is_folder(path)) path = bd_path_join(ctx, path, "plan.json");
  BD_TRY(bd_file_read(ctx, path, PLAN_LIMIT_BYTES, &data, &bytes));
  BD_TRY(parse(ctx, path, data, bytes, &root, out));
  out->contradicts = bd_told_check_self(ctx, root, &out->plan);
  if (with_planner) bd_told_check_planner(ctx, out);
  return BD_OK;
}

bd_status bd_told_load(bd_ctx *ctx, const char *path, bd_told_plan *out) {
  return load(ctx, path, false, out);
}

static bd_status run(bd_ctx *ctx, const bd_arguments *arguments) {
  static const char *const only_why[] = {"--model", "--cluster", "--time-limit", "-o"};
  bd_told_plan told;
  bd_text text = bd_text_init(ctx->arena);
  BD_TRY(load(ctx, arguments->operand, !bd_argument(arguments, "--why"), &told));
  if (bd_argument(arguments, "--why")) {
    BD_TRY(bd_why(ctx, arguments, &told, &text));
    return bd_answer_write(ctx, &text, NULL);
  }
  for (size_t i = 0; i < sizeof only_why / sizeof *only_why; i++)
    if (bd_argument(arguments, only_why[i]))
      return bd_usage_fail(ctx, arguments, "option '%s' goes with --why", only_why[i]);
  if (bd_argument_flag(arguments, "--json"))
    bd_explain_json(ctx, &told.plan, told.strategies, &text);
  else
    bd_explain_page(ctx, &told.plan, told.strategies, bd_argument_flag(arguments, "--ops"), &text);
  return bd_answer_write(ctx, &text, NULL);
}

static const bd_option options[] = {
    {"--json", NULL, "as JSON, for programs (docs/explain-json.md)"},
    {"--ops", NULL, "how the mesh splits every op, too"},
    {"--why", "LIST", "force choices and tell what they cost: tp=8,pp=1 (docs/explain.md)"},
    {"--model", "MODEL", "with --why: the plan's model, where its name does not tell"},
    {"--cluster", "SPEC", "with --why: the plan's cluster, or another"},
    {"--time-limit", "SECONDS", "with --why: of the search (default 30)"},
    {"-o", "FILE", "with --why: write the forced plan"},
    {0},
};
const bd_command bd_command_explain = {
    .name = "explain",
    .summary = "say what a plan does and what it is predicted to cost",
    .operand = "PLAN",
    .options = options,
    .reads = (const char *const[]){"--model", "--cluster", NULL},
    .writes = (const char *const[]){"-o", NULL},
    .details = "PLAN is a plan file, or the output folder of 'braid compile'.\n\n"
               "example: braid explain out\n"
               "         braid explain out --why dp=8,pp=1\n",
    .run = run,
};
