// cast: to another dtype; reals become integers by truncation.
#include "ir/ops/ops.h"

BD_EVAL(cast) {
  BD_IGNORE(op, key, scratch);
  int64_t count = bd_tensor_elements(out);
  for (int64_t i = 0; i < count; i++)
    out->data[i] = bd_dtype_round(out->type.dtype, in[0].data[i]);
}

BD_GRADIENT(cast) {
  bd_attr back = bd_attr_string(ctx, "dtype", bd_dtype_name(bd_gradient_operand_type(g, 0)->dtype));
  return bd_build(ctx, g->backward, BD_OP_CAST, 1, &g->dout[0], 1, &back, g->op->loc, &g->din[0]);
}
