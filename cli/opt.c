// `braid opt`: runs passes on the text of a module.
#include "cli/answer.h"
#include "cli/command.h"
#include "ir/base/file.h"
#include "ir/pass.h"

#define TEXT_LIMIT_BYTES ((size_t)256 << 20)

static bd_status run(bd_ctx *ctx, const bd_arguments *arguments) {
  char *data;
  size_t bytes;
  bd_module *in, *out;
  const char *passes = bd_argument(arguments, "--passes");
  const char *print_after = bd_argument(arguments, "--print-after");
  if (!passes) passes = "";
  if (bd_pass_check_list(ctx, passes, print_after) != BD_OK) {
    *arguments->exit_code = BD_EXIT_USAGE;
    return BD_INVALID;
  }
  BD_TRY(bd_file_read(ctx, arguments->operand, TEXT_LIMIT_BYTES, &data, &bytes));
  BD_TRY(bd_module_parse(ctx, arguments->operand, data, bytes, &in));
  BD_TRY(bd_pass_run_list(ctx, passes, print_after, stderr, in, &out));
  bd_text text = bd_text_init(ctx->arena);
  bd_module_print(out, &text);
  return bd_answer_write(ctx, &text, NULL);
}

static const bd_option options[] = {
    {"--passes", "A,B", "the passes to run, in order (none: parse, verify and print)"},
    {"--print-after", "PASS|all", "print the module after a pass, to stderr"},
    {0},
};
const bd_command bd_command_opt = {
    .name = "opt",
    .summary = "run passes on a module's text and print the result",
    .operand = "FILE",
    .options = options,
    .details = "FILE is a module as 'braid compile --emit graph' and its like print it "
               "(docs/ir.md). The passes:\n"
#define BD_PASS(NAME, spelling, before, after, summary) "  " spelling ": " summary "\n"
#include "ir/passes.def"
#undef BD_PASS
               "\nexample: braid opt graph.txt --passes canonicalize,cse,dce\n",
    .run = run,
};
