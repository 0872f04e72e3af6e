#include "ir/pass.h"
#include "ir/passes/rewrite.h"
#include <string.h>

static bool is_called(const bd_function *main, const char *name) {
  for (int i = 0; i < main->op_count; ++i)
    if (main->ops[i].callee && strcmp(main->ops[i].callee, name) == 0) return true;
  return false;
}

bd_status bd_pass_dce(bd_ctx *ctx, const bd_module *in, bd_module **out_module) {
  bd_module *module = bd_module_clone(ctx, in);
  module->main = bd_rewrite_drop_unused(ctx, in->main);
  module->function_count = 0;
  for (int i = 0; i < in->function_count; ++i)
    if (is_called(module->main, in->functions[i]->name))
      module->functions[module->function_count++] = bd_rewrite_drop_unused(ctx, in->functions[i]);
  *out_module = module;
  return BD_OK;
}
