// cast: to another dtype. Integers keep their low bits; bools are 0 and 1.
#include "ir/ops/ops.h"

BD_EVAL(cast) {
  BD_IGNORE(op, key, scratch);
  bd_dtype to = out->type.dtype;
  bool whole = !bd_dtype_is_float(in[0].type.dtype) && !bd_dtype_is_float(to);
  int64_t count = bd_tensor_elements(out);
  for (int64_t i = 0; i < count; i++)
    out->data[i] = whole ? bd_dtype_wrap(to, in[0].data[i]) : bd_dtype_round(to, in[0].data[i]);
}

BD_GRADIENT(cast) {
  bd_attr back = bd_attr_string(ctx, "dtype", bd_dtype_name(bd_gradient_operand_type(g, 0)->dtype));
  return bd_build(ctx, g->backward, BD_OP_CAST, 1, &g->dout[0], 1, &back, g->op->loc, &g->din[0]);
}
