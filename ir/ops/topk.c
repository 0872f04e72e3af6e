// topk: the k greatest (largest=0: least) elements along the last dimension in order, of equal ones
// the first first, and their indices. A NaN is greater than every number.
#include "ir/ops/ops.h"
#include <math.h>

static bool is_greater(double a, double b) {
  return isnan(a) ? !isnan(b) : a > b;
}

BD_EVAL(topk) {
  (void)key, (void)scratch;
  int64_t extent = bd_tensor_last(in), k = bd_tensor_last(out);
  bool largest = bd_op_int(op, "largest", 1);
  for (int64_t row = 0; row < bd_tensor_elements(in) / extent; row++) {
    const double *x = in[0].data + row * extent;
    double *index = out[1].data + row * k;
    for (int64_t j = 0; j < k; j++) {
      int64_t best = -1;
      for (int64_t i = 0; i < extent; i++) {
        bool taken = false;
        for (int64_t before = 0; before < j; before++)
          taken |= index[before] == (double)i;
        bool better = best < 0 || (largest ? is_greater(x[i], x[best]) : is_greater(x[best], x[i]));
        if (!taken && better) best = i;
      }
      index[j] = (double)best;
      out[0].data[row * k + j] = x[best];
    }
  }
}

BD_GRADIENT(topk) {
  const bd_type *type = bd_gradient_operand_type(g, 0);
  int last = type->rank - 1;
  const bd_attr attrs[3] = {bd_attr_int(ctx, "dim", last), bd_attr_int(ctx, "batch", last),
                            bd_attr_int(ctx, "rows", type->dims[last])};
  const bd_id in[2] = {g->dout[0], bd_gradient_result(g, 1)};
  bd_id dx;
  BD_TRY(bd_build(ctx, g->backward, BD_OP_GATHER_DX, 2, in, 3, attrs, g->op->loc, &dx));
  return bd_gradient_as_operand(ctx, g, 0, dx, &g->din[0]);
}
