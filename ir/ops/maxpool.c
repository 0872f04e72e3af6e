// maxpool over windows of images; what is outside never wins, and the first of equal maxima does.
#include "ir/ops/ops.h"
#include "ir/windows.h"
#include <math.h>

// Which point of its plane, whose points are `step` apart, is the maximum of the window at output
// point `y`, or -1 for a window with nothing inside.
static int64_t find_maximum(const bd_window_shape *s, const double *plane, int64_t step,
                            int64_t y) {
  int64_t best = -1, corner[BD_MAX_SPATIAL], rest = y;
  for (int d = BD_MAX_SPATIAL - 1; d >= 0; d--, rest /= s->y[d + 1])
    corner[d] = rest % s->y[d] * s->stride[d] - s->before[d];
  for (int64_t a = 0; a < s->k[0]; a++)
    for (int64_t b = 0; b < s->k[1]; b++)
      for (int64_t c = 0; c < s->k[2]; c++) {
        const int64_t k[] = {a, b, c};
        int64_t at = 0;
        for (int d = 0; d < BD_MAX_SPATIAL && at >= 0; d++) {
          int64_t i = corner[d] + k[d] * s->dilation[d];
          at = i < 0 || i >= s->x[d] ? -1 : at * s->x[d] + i;
        }
        if (at >= 0 && (best < 0 || plane[at * step] > plane[best * step])) best = at;
      }
  return best;
}

// Reads x and walks the windows; `dy` NULL: writes maxima to `out`, else adds dy at the maxima.
static void pool(const bd_op *op, const bd_tensor *x, const bd_type *y, const double *dy,
                 double *out) {
  bd_window_shape s = bd_window_shape_of(op, &x->type, NULL, y);
  int64_t from = s.x[0] * s.x[1] * s.x[2], to = s.y[0] * s.y[1] * s.y[2];
  bd_image_order order = bd_image_order_of(op, y->rank);
  int64_t channels = y->dims[order.channels], step = order.channels == 1 ? 1 : channels;
  for (int64_t p = 0; p < y->dims[0] * channels; p++) {
    int64_t plane = step == 1 ? p * from : p / channels * from * channels + p % channels;
    int64_t made = step == 1 ? p * to : p / channels * to * channels + p % channels;
    for (int64_t i = 0; i < to; i++) {
      int64_t best = find_maximum(&s, x->data + plane, step, i);
      if (!dy)
        out[made + i * step] = best < 0 ? -INFINITY : x->data[plane + best * step];
      else if (best >= 0)
        out[plane + best * step] += dy[made + i * step];
    }
  }
}

BD_EVAL(maxpool) {
  (void)key, (void)scratch;
  pool(op, &in[0], &out->type, NULL, out->data);
}

BD_EVAL(maxpool_grad) {
  (void)key, (void)scratch;
  pool(op, &in[0], &in[1].type, in[1].data, out->data);
}

BD_GRADIENT(maxpool) {
  const bd_id in[2] = {bd_gradient_operand(g, 0), g->dout[0]};
  return bd_gradient_like(ctx, g, BD_OP_MAXPOOL_GRAD, 2, in, 0, NULL, &g->din[0]);
}
