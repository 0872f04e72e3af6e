// rmsnorm(x, gain) over the last dimension, with its two gradient ops. `base` is added to the gain.
#include "ir/ops/ops.h"
#include <math.h>

BD_EVAL(rmsnorm) {
  (void)key, (void)scratch;
  double eps = bd_op_real(op, "eps", 1e-5), base = bd_op_real(op, "base", 0);
  int64_t c = bd_tensor_last(&in[0]), rows = bd_tensor_elements(&in[0]) / c;
  for (int64_t r = 0; r < rows; r++) {
    const double *x = in[0].data + r * c;
    double squares = 0;
    for (int64_t i = 0; i < c; i++)
      squares += x[i] * x[i];
    double rstd = 1 / sqrt(squares / (double)c + eps);
    for (int64_t i = 0; i < c; i++)
      out[0].data[r * c + i] = x[i] * rstd * (base + in[1].data[i]);
    out[1].data[r] = rstd;
  }
}

BD_EVAL(rmsnorm_dx) {
  (void)key, (void)scratch;
  int64_t c = bd_tensor_last(&in[1]), rows = bd_tensor_elements(&in[1]) / c;
  const double *gain = in[2].data, base = bd_op_real(op, "base", 0);
  for (int64_t r = 0; r < rows; r++) {
    const double *dy = in[0].data + r * c, *x = in[1].data + r * c;
    double rstd = in[3].data[r], dot = 0;
    for (int64_t i = 0; i < c; i++)
      dot += dy[i] * (base + gain[i]) * x[i] * rstd;
    for (int64_t i = 0; i < c; i++)
      out->data[r * c + i] = rstd * (dy[i] * (base + gain[i]) - x[i] * rstd * dot / (double)c);
  }
}

BD_EVAL(rmsnorm_dw) {
  BD_IGNORE(op, key, scratch);
  int64_t c = bd_tensor_last(&in[1]), rows = bd_tensor_elements(&in[1]) / c;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < c; i++)
      out->data[i] += in[0].data[r * c + i] * in[1].data[r * c + i] * in[2].data[r];
}

BD_GRADIENT(rmsnorm) {
  bd_id dy = g->dout[0], x = bd_gradient_operand(g, 0), rstd = bd_gradient_result(g, 1);
  if (g->need[0]) {
    const bd_id in[4] = {dy, x, bd_gradient_operand(g, 1), rstd};
    const bd_attr *base = bd_op_find_attr(g->op, "base");
    BD_TRY(bd_build(ctx, g->backward, BD_OP_RMSNORM_DX, 4, in, base != NULL, base, g->op->loc,
                    &g->din[0]));
  }
  if (g->need[1]) {
    const bd_id in[3] = {dy, x, rstd};
    bd_id dw;
    BD_TRY(bd_build(ctx, g->backward, BD_OP_RMSNORM_DW, 3, in, 0, NULL, g->op->loc, &dw));
    BD_TRY(bd_gradient_as_operand(ctx, g, 1, dw, &g->din[1]));
  }
  return BD_OK;
}
