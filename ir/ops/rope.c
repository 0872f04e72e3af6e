// rope: rotates pairs (i, i + d/2) of each head by an angle that grows with the position. The
// gradient turns back. `factor` and its three companions slow the low frequencies as Llama 3.1
// does.
#include "ir/ops/ops.h"
#include <math.h>

static double frequency(const bd_op *op, int64_t i, int64_t d) {
  double plain = pow(bd_op_real(op, "theta", 10000), -2 * (double)i / (double)d);
  double factor = bd_op_real(op, "factor", 0);
  if (factor == 0) return plain;
  double low = bd_op_real(op, "low_freq_factor", 1), high = bd_op_real(op, "high_freq_factor", 4);
  double turns = bd_op_real(op, "original_positions", 8192) * plain / (2 * M_PI);
  if (turns > high) return plain;
  if (turns < low) return plain / factor;
  double smooth = (turns - low) / (high - low);
  return (1 - smooth) * plain / factor + smooth * plain;
}

BD_EVAL(rope) {
  (void)key, (void)scratch;
  const int64_t *dims = in[0].type.dims;
  int64_t positions = dims[1], heads = dims[2], d = dims[3], half = d / 2;
  double direction = bd_op_int(op, "inverse", 0) ? -1 : 1;
  int64_t rows = dims[0] * positions * heads;
  for (int64_t row = 0; row < rows; row++) {
    int64_t position = row / heads % positions;
    const double *x = in[0].data + row * d;
    double *y = out->data + row * d;
    for (int64_t i = 0; i < half; i++) {
      double angle = direction * (double)position * frequency(op, i, d);
      y[i] = x[i] * cos(angle) - x[i + half] * sin(angle);
      y[i + half] = x[i + half] * cos(angle) + x[i] * sin(angle);
    }
  }
}

BD_GRADIENT(rope) {
  BD_TRY(bd_gradient_like(ctx, g, BD_OP_ROPE, 1, &g->dout[0], 0, NULL, &g->din[0]));
  bd_op *made = &g->backward->ops[g->backward->values[g->din[0]].producer];
  bd_op_set_attr(ctx, made, bd_attr_int(ctx, "inverse", !bd_op_int(g->op, "inverse", 0)));
  return BD_OK;
}
