// conv2d(x[n,c,h,w], w[o,c/groups,kh,kw]) and its two gradient ops, NCHW. All three walk the same
// (output point, kernel point, input channel) triples.
#include "ir/ops/ops.h"

typedef struct shape {
  int64_t n, c, h, w, o, group_c, kh, kw, oh, ow, stride_h, stride_w, pad_h, pad_w, groups;
} shape;

static shape shape_of(const bd_op *op, const bd_type *x, const bd_type *w, const bd_type *y) {
  return (shape){
      .n = x->dims[0],
      .c = x->dims[1],
      .h = x->dims[2],
      .w = x->dims[3],
      .o = w->dims[0],
      .group_c = w->dims[1],
      .kh = w->dims[2],
      .kw = w->dims[3],
      .oh = y->dims[2],
      .ow = y->dims[3],
      .stride_h = bd_op_int(op, "stride_h", 1),
      .stride_w = bd_op_int(op, "stride_w", 1),
      .pad_h = bd_op_int(op, "pad_h", 0),
      .pad_w = bd_op_int(op, "pad_w", 0),
      .groups = bd_op_int(op, "groups", 1),
  };
}

// Offsets of one multiply-add in x, w and y.
typedef struct point {
  int64_t x, w, y;
} point;
typedef void (*visit)(const bd_tensor *in, bd_tensor *out, point at);

static void walk_output(const shape *s, const bd_tensor *in, bd_tensor *out, visit visit, int64_t n,
                        int64_t o, int64_t i, int64_t j) {
  int64_t first_c = o / (s->o / s->groups) * s->group_c;
  int64_t y = ((n * s->o + o) * s->oh + i) * s->ow + j;
  for (int64_t c = 0; c < s->group_c; c++)
    for (int64_t a = 0; a < s->kh; a++)
      for (int64_t b = 0; b < s->kw; b++) {
        int64_t row = i * s->stride_h + a - s->pad_h, column = j * s->stride_w + b - s->pad_w;
        if (row < 0 || row >= s->h || column < 0 || column >= s->w) continue;
        point at = {((n * s->c + first_c + c) * s->h + row) * s->w + column,
                    ((o * s->group_c + c) * s->kh + a) * s->kw + b, y};
        visit(in, out, at);
      }
}

static void walk(const shape *s, const bd_tensor *in, bd_tensor *out, visit visit) {
  for (int64_t n = 0; n < s->n; n++)
    for (int64_t o = 0; o < s->o; o++)
      for (int64_t i = 0; i < s->oh; i++)
        for (int64_t j = 0; j < s->ow; j++)
          walk_output(s, in, out, visit, n, o, i, j);
}

static void forward(const bd_tensor *in, bd_tensor *out, point at) {
  out->data[at.y] += in[0].data[at.x] * in[1].data[at.w];
}
static void backward_x(const bd_tensor *in, bd_tensor *out, point at) {
  out->data[at.x] += in[0].data[at.y] * in[1].data[at.w];
}
static void backward_w(const bd_tensor *in, bd_tensor *out, point at) {
  out->data[at.w] += in[0].data[at.x] * in[1].data[at.y];
}

BD_EVAL(conv2d) {
  (void)key, (void)scratch;
  shape s = shape_of(op, &in[0].type, &in[1].type, &out->type);
  walk(&s, in, out, forward);
}

BD_EVAL(conv2d_dx) {
  (void)key, (void)scratch;
  shape s = shape_of(op, &out->type, &in[1].type, &in[0].type);
  walk(&s, in, out, backward_x);
}

BD_EVAL(conv2d_dw) {
  (void)key, (void)scratch;
  shape s = shape_of(op, &in[0].type, &out->type, &in[1].type);
  walk(&s, in, out, backward_w);
}

BD_GRADIENT(conv2d) {
  const bd_type *x = bd_gradient_operand_type(g, 0), *w = bd_gradient_operand_type(g, 1);
  if (g->need[0]) {
    const bd_id in[2] = {g->dout[0], bd_gradient_operand(g, 1)};
    const bd_attr extents[2] = {bd_attr_int(ctx, "h", x->dims[2]),
                                bd_attr_int(ctx, "w", x->dims[3])};
    BD_TRY(bd_gradient_like(ctx, g, BD_OP_CONV2D_DX, 2, in, 2, extents, &g->din[0]));
  }
  if (g->need[1]) {
    const bd_id in[2] = {bd_gradient_operand(g, 0), g->dout[0]};
    const bd_attr extents[2] = {bd_attr_int(ctx, "kh", w->dims[2]),
                                bd_attr_int(ctx, "kw", w->dims[3])};
    BD_TRY(bd_gradient_like(ctx, g, BD_OP_CONV2D_DW, 2, in, 2, extents, &g->din[1]));
  }
  return BD_OK;
}
