// rope: rotates pairs of the first or the last r numbers of each head, (i, i + r/2) or neighbours,
// by an angle that grows with the position. The gradient turns back. `factor` and its companions
// slow the low frequencies as Llama 3.1 or, with a ramp, YaRN does; `divisors` slow each as
// LongRoPE does. Lengths are multiplied by `amplitude`, those of gradients too.
#include "ir/rope.h"
#include "ir/ops/ops.h"
#include <math.h>

BD_EVAL(rope) {
  (void)key, (void)scratch;
  const int64_t *dims = in[0].type.dims;
  int64_t positions = dims[1], heads = dims[2], d = dims[3];
  int64_t turned = bd_rope_turned(op, d), first = bd_rope_first(op, d);
  int64_t apart = bd_rope_apart(op, turned), step = bd_rope_step(op);
  double amplitude = bd_rope_amplitude(op);
  double direction = bd_op_int(op, "inverse", 0) ? -1 : 1;
  int64_t rows = dims[0] * positions * heads;
  for (int64_t row = 0; row < rows; row++) {
    int64_t position = row / heads % positions;
    const double *x = in[0].data + row * d;
    double *y = out->data + row * d;
    for (int64_t i = 0; i < d; i++)
      y[i] = x[i];
    for (int64_t i = 0; i < turned / 2; i++) {
      int64_t a = first + i * step, b = a + apart;
      double angle = direction * (double)position * bd_rope_frequency(op, i, turned);
      double cosine = amplitude * cos(angle), sine = amplitude * sin(angle);
      y[a] = x[a] * cosine - x[b] * sine;
      y[b] = x[b] * cosine + x[a] * sine;
    }
  }
}

BD_GRADIENT(rope) {
  BD_TRY(bd_gradient_like(ctx, g, BD_OP_ROPE, 1, &g->dout[0], 0, NULL, &g->din[0]));
  bd_op *made = &g->backward->ops[g->backward->values[g->din[0]].producer];
  bd_op_set_attr(ctx, made, bd_attr_int(ctx, "inverse", !bd_op_int(g->op, "inverse", 0)));
  return BD_OK;
}
