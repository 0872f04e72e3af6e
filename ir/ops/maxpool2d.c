// maxpool2d over windows of NCHW planes; padding never wins, and the first of equal maxima does.
#include "ir/ops/ops.h"

// Offset in its plane of the maximum of the window at output point (i, j), or -1 for a window of
// padding alone.
static int64_t find_maximum(const bd_op *op, const double *plane, int64_t h, int64_t w, int64_t i,
                            int64_t j) {
  int64_t kh = bd_op_int(op, "kh", 1), kw = bd_op_int(op, "kw", 1), best = -1;
  int64_t top = i * bd_op_int(op, "stride_h", 1) - bd_op_int(op, "pad_h", 0);
  int64_t left = j * bd_op_int(op, "stride_w", 1) - bd_op_int(op, "pad_w", 0);
  for (int64_t row = top; row < top + kh; row++)
    for (int64_t column = left; column < left + kw; column++) {
      if (row < 0 || row >= h || column < 0 || column >= w) continue;
      int64_t at = row * w + column;
      if (best < 0 || plane[at] > plane[best]) best = at;
    }
  return best;
}

// Reads x and walks the windows; `dy` NULL: writes maxima to `out`, else adds dy at the maxima.
static void pool(const bd_op *op, const bd_tensor *x, const bd_type *y, const double *dy,
                 double *out) {
  int64_t h = x->type.dims[2], w = x->type.dims[3], oh = y->dims[2], ow = y->dims[3];
  int64_t planes = y->dims[0] * y->dims[1];
  for (int64_t p = 0; p < planes; p++)
    for (int64_t i = 0; i < oh; i++)
      for (int64_t j = 0; j < ow; j++) {
        int64_t best = find_maximum(op, x->data + p * h * w, h, w, i, j);
        int64_t at = (p * oh + i) * ow + j;
        if (best < 0) continue;
        if (dy)
          out[p * h * w + best] += dy[at];
        else
          out[at] = x->data[p * h * w + best];
      }
}

BD_EVAL(maxpool2d) {
  (void)key, (void)scratch;
  pool(op, &in[0], &out->type, NULL, out->data);
}

BD_EVAL(maxpool2d_grad) {
  (void)key, (void)scratch;
  pool(op, &in[0], &in[1].type, in[1].data, out->data);
}

BD_GRADIENT(maxpool2d) {
  const bd_id in[2] = {bd_gradient_operand(g, 0), g->dout[0]};
  return bd_gradient_like(ctx, g, BD_OP_MAXPOOL2D_GRAD, 2, in, 0, NULL, &g->din[0]);
}
