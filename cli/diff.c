// `braid diff`: two plans side by side.
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/difference.h"

static bd_status run(bd_ctx *ctx, const bd_arguments *arguments) {
  bd_told_plan a, b;
  BD_TRY(bd_told_load(ctx, arguments->operand, &a));
  BD_TRY(bd_told_load(ctx, arguments->second, &b));
  bd_difference difference = bd_difference_find(ctx, &a, &b);
  bd_text text = bd_text_init(ctx->arena);
  if (bd_argument_flag(arguments, "--json")) {
    bd_difference_json(&difference, &text);
    bd_text_add(&text, "\n");
  } else {
    bd_difference_page(&difference, &text);
  }
  return bd_answer_write(ctx, &text, NULL);
}

static const bd_option options[] = {
    {"--json", NULL, "as JSON, for programs (docs/explain-json.md)"},
    {0},
};
const bd_command bd_command_diff = {
    .name = "diff",
    .summary = "say in what two plans differ: choices, seconds, bytes",
    .operand = "A",
    .second = "B",
    .options = options,
    .details = "A and B are plan files, or output folders of 'braid compile'.\n\n"
               "example: braid diff a.json b.json\n",
    .run = run,
};
