// layernorm(x, gain, bias) over the last dimension, with its two gradient ops.
#include "ir/ops/ops.h"
#include <math.h>

BD_EVAL(layernorm) {
  (void)key, (void)scratch;
  double eps = bd_op_real(op, "eps", 1e-5);
  int64_t c = bd_tensor_last(&in[0]), rows = bd_tensor_elements(&in[0]) / c;
  for (int64_t r = 0; r < rows; r++) {
    const double *x = in[0].data + r * c;
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < c; i++)
      sum += x[i];
    double mean = sum / (double)c;
    for (int64_t i = 0; i < c; i++)
      squares += (x[i] - mean) * (x[i] - mean);
    double rstd = 1 / sqrt(squares / (double)c + eps);
    for (int64_t i = 0; i < c; i++)
      out[0].data[r * c + i] = (x[i] - mean) * rstd * in[1].data[i] + in[2].data[i];
    out[1].data[r] = mean;
    out[2].data[r] = rstd;
  }
}

BD_EVAL(layernorm_dx) {
  BD_IGNORE(op, key, scratch);
  int64_t c = bd_tensor_last(&in[1]), rows = bd_tensor_elements(&in[1]) / c;
  const double *gain = in[2].data;
  for (int64_t r = 0; r < rows; r++) {
    const double *dy = in[0].data + r * c, *x = in[1].data + r * c;
    double mean = in[3].data[r], rstd = in[4].data[r], sum = 0, dot = 0;
    for (int64_t i = 0; i < c; i++) {
      sum += dy[i] * gain[i];
      dot += dy[i] * gain[i] * (x[i] - mean) * rstd;
    }
    for (int64_t i = 0; i < c; i++)
      out->data[r * c + i] =
          rstd * (dy[i] * gain[i] - (sum + (x[i] - mean) * rstd * dot) / (double)c);
  }
}

BD_EVAL(layernorm_dw) {
  BD_IGNORE(op, key, scratch);
  int64_t c = bd_tensor_last(&in[1]), rows = bd_tensor_elements(&in[1]) / c;
  for (int64_t r = 0; r < rows; r++) {
    const double *dy = in[0].data + r * c, *x = in[1].data + r * c;
    for (int64_t i = 0; i < c; i++) {
      out[0].data[i] += dy[i] * (x[i] - in[2].data[r]) * in[3].data[r];
      out[1].data[i] += dy[i];
    }
  }
}

BD_GRADIENT(layernorm) {
  bd_id dy = g->dout[0], x = bd_gradient_operand(g, 0);
  bd_id mean = bd_gradient_result(g, 1), rstd = bd_gradient_result(g, 2);
  if (g->need[0]) {
    const bd_id in[5] = {dy, x, bd_gradient_operand(g, 1), mean, rstd};
    BD_TRY(bd_build(ctx, g->backward, BD_OP_LAYERNORM_DX, 5, in, 0, NULL, g->op->loc, &g->din[0]));
  }
  if (g->need[1] || g->need[2]) {
    const bd_id in[4] = {dy, x, mean, rstd};
    bd_id dw[2];
    BD_TRY(bd_build(ctx, g->backward, BD_OP_LAYERNORM_DW, 4, in, 0, NULL, g->op->loc, dw));
    for (int i = 0; i < 2; i++)
      if (g->need[1 + i]) BD_TRY(bd_gradient_as_operand(ctx, g, 1 + i, dw[i], &g->din[1 + i]));
  }
  return BD_OK;
}
