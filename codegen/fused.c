#include "codegen/fused.h"

const bd_fused *bd_fused_find(bd_ctx *ctx, const bd_module *module, const bd_prefetch *prefetch) {
  bd_fused *fused = BD_NEW_ARRAY(ctx->arena, bd_fused, module->function_count);
  for (int i = 0; i < module->function_count; ++i) {
    bd_fused_norm_find(ctx, module, i, prefetch, &fused[i].norms);
    bd_fused_loss_find(ctx, module, i, prefetch, &fused[i].losses);
  }
  return fused;
}

bool bd_fused_takes(const bd_fused *fused, int step) {
  return fused->norms.taken[step] || fused->losses.taken[step];
}

bool bd_fused_kernel(bd_ctx *ctx, const bd_module *module, const bd_function *function,
                     const bd_fusion *fusion, const bd_fused *fused, int step, int number,
                     bd_kernel *out_kernel) {
  if (!bd_fused_norm_kernel(ctx, module, function, fusion, &fused->norms.of[step], step, number,
                            out_kernel))
    return false;
  if (fused->losses.lse[step] >= 0) bd_kernel_add_gradient(ctx, out_kernel);
  return true;
}

bool bd_fused_makes_gradient(const bd_module *module, const bd_fused *fused, int stage) {
  const bd_function *main = module->main;
  for (int i = 0; i < main->op_count; ++i) {
    if (main->ops[i].kind != BD_OP_CALL || main->ops[i].stage != stage) continue;
    const bd_function *callee = bd_module_find(module, main->ops[i].callee);
    if (fused[bd_module_number(module, callee)].losses.any) return true;
  }
  return false;
}
