#include "tests/unit/ir/support_arguments.h"
#include <math.h>

bd_tensor *bf16_arguments(bd_ctx *ctx, const bd_module *module, int64_t samples) {
  const bd_function *main = module->main;
  bd_tensor *in = BD_NEW_ARRAY(ctx->arena, bd_tensor, main->param_count);
  for (int i = 0; i + 1 < main->param_count; i++) {
    bd_type type = main->values[main->params[i]].type;
    for (int d = 0; d < type.rank; d++)
      type.dims[d] = bd_extent(type.dims[d], samples);
    int64_t count = bd_type_elements(&type, 1);
    in[i] = (bd_tensor){type, BD_NEW_ARRAY(ctx->arena, double, count)};
    for (int64_t e = 0; e < count; e++)
      in[i].data[e] = type.dtype == BD_I32
                          ? (double)(e % 5)
                          : bd_dtype_round(BD_BF16, sin((double)(e * 7 + i * 3 + 1)));
  }
  return in;
}
