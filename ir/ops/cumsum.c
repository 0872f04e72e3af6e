// cumsum: sums of the elements up to each along `dim`; exclusive=1: of those before it; reverse=1:
// from the end.
#include "ir/ops/pointwise.h"

static double add(bd_dtype dtype, double a, double b) {
  if (bd_dtype_is_float(dtype)) return a + b;
  return bd_whole_of(dtype, bd_whole_bits(a) + bd_whole_bits(b));
}

BD_EVAL(cumsum) {
  (void)key, (void)scratch;
  int dim = (int)bd_op_int(op, "dim", 0);
  bool exclusive = bd_op_int(op, "exclusive", 0), reverse = bd_op_int(op, "reverse", 0);
  int64_t inner = 1, extent = out->type.dims[dim], count = bd_tensor_elements(out);
  for (int d = dim + 1; d < out->type.rank; d++)
    inner *= out->type.dims[d];
  for (int64_t row = 0; row < count / extent; row++) {
    int64_t first = row / inner * inner * extent + row % inner;
    double sum = 0;
    for (int64_t i = 0; i < extent; i++) {
      int64_t at = first + (reverse ? extent - 1 - i : i) * inner;
      double next = add(out->type.dtype, sum, in[0].data[at]);
      out->data[at] = exclusive ? sum : next;
      sum = next;
    }
  }
}

BD_GRADIENT(cumsum) {
  const bd_attr attrs[3] = {
      bd_attr_int(ctx, "dim", bd_op_int(g->op, "dim", 0)),
      bd_attr_int(ctx, "exclusive", bd_op_int(g->op, "exclusive", 0)),
      bd_attr_int(ctx, "reverse", !bd_op_int(g->op, "reverse", 0)),
  };
  return bd_build(ctx, g->backward, BD_OP_CUMSUM, 1, &g->dout[0], 3, attrs, g->op->loc, &g->din[0]);
}
