#include "ir/pass.h"
#include "ir/passes/rewrite.h"
#include <string.h>

// Every op of a graph is a function of its operands, so one without a used result can go.
static bd_function *drop_unused(bd_ctx *ctx, const bd_function *function) {
  bd_rewrite rewrite = bd_rewrite_begin(ctx, function);
  bool *used = rewrite.is_result;
  for (int i = function->op_count; i-- > 0;) {
    const bd_op *op = &function->ops[i];
    bool needed = false;
    for (int r = 0; r < op->out_count; ++r)
      needed = needed || used[op->out[r]];
    rewrite.drop[i] = !needed;
    for (int k = 0; needed && k < op->in_count; ++k)
      used[op->in[k]] = true;
  }
  return bd_rewrite_end(ctx, &rewrite);
}

static bool is_called(const bd_function *main, const char *name) {
  for (int i = 0; i < main->op_count; ++i)
    if (main->ops[i].callee && strcmp(main->ops[i].callee, name) == 0) return true;
  return false;
}

bd_status bd_pass_dce(bd_ctx *ctx, const bd_module *in, bd_module **out_module) {
  bd_module *module = bd_module_clone(ctx, in);
  module->main = drop_unused(ctx, in->main);
  module->function_count = 0;
  for (int i = 0; i < in->function_count; ++i)
    if (is_called(module->main, in->functions[i]->name))
      module->functions[module->function_count++] = drop_unused(ctx, in->functions[i]);
  *out_module = module;
  return BD_OK;
}
