// conv(x[n,c,s..], w[o,c/groups,k..]), or with channels last conv(x[n,s..,c], w[o,c/groups,k..]),
// and the two ops that its gradients are, conv_dx and conv_dw. All three are linear in both
// operands and walk the same (output point, window point, input channel) triples, so the gradients
// of each are the other two.
#include "ir/ops/ops.h"
#include "ir/windows.h"

typedef struct shape {
  bd_window_shape at;
  int64_t n, c, o, group_c, groups;
  int64_t x_points, k_points, y_points;
  bool last; // channels are
} shape;

static int64_t product(const int64_t extents[BD_MAX_SPATIAL]) {
  return extents[0] * extents[1] * extents[2];
}

static shape shape_of(const bd_op *op, const bd_type *x, const bd_type *w, const bd_type *y) {
  bd_image_order order = bd_image_order_of(op, x->rank);
  shape s = {
      .at = bd_window_shape_of(op, x, w, y),
      .n = x->dims[0],
      .c = x->dims[order.channels],
      .o = w->dims[0],
      .group_c = w->dims[1],
      // Of a rank's part of the channels, its part of the groups.
      .groups = x->dims[order.channels] / w->dims[1],
      .last = order.channels != 1,
  };
  s.x_points = product(s.at.x);
  s.k_points = product(s.at.k);
  s.y_points = product(s.at.y);
  return s;
}

// Offsets of one multiply-add in x, w and y.
typedef struct point {
  int64_t x, w, y;
} point;
typedef void (*visit)(const bd_tensor *in, bd_tensor *out, point at);

// Where window point `k` of output point `y` lies in the image, or -1.
static int64_t place_of(const bd_window_shape *at, int64_t y, int64_t k) {
  int64_t place = 0, stride = 1;
  for (int d = BD_MAX_SPATIAL - 1; d >= 0; d--) {
    int64_t i = y % at->y[d] * at->stride[d] + k % at->k[d] * at->dilation[d] - at->before[d];
    if (i < 0 || i >= at->x[d]) return -1;
    place += i * stride;
    stride *= at->x[d];
    y /= at->y[d];
    k /= at->k[d];
  }
  return place;
}

// Where the point of a channel lies in an image of `channels`.
static int64_t offset_of(const shape *s, int64_t image, int64_t channels, int64_t channel,
                         int64_t points, int64_t point) {
  return s->last ? (image * points + point) * channels + channel
                 : (image * channels + channel) * points + point;
}

static void walk_filter(const shape *s, const bd_tensor *in, bd_tensor *out, visit visit, int64_t n,
                        int64_t o) {
  int64_t first_c = o / (s->o / s->groups) * s->group_c;
  for (int64_t y = 0; y < s->y_points; y++)
    for (int64_t k = 0; k < s->k_points; k++) {
      int64_t place = place_of(&s->at, y, k);
      for (int64_t c = 0; place >= 0 && c < s->group_c; c++) {
        point at = {offset_of(s, n, s->c, first_c + c, s->x_points, place),
                    (o * s->group_c + c) * s->k_points + k,
                    offset_of(s, n, s->o, o, s->y_points, y)};
        visit(in, out, at);
      }
    }
}

static void walk(const shape *s, const bd_tensor *in, bd_tensor *out, visit visit) {
  for (int64_t n = 0; n < s->n; n++)
    for (int64_t o = 0; o < s->o; o++)
      walk_filter(s, in, out, visit, n, o);
}

static void add_y(const bd_tensor *in, bd_tensor *out, point at) {
  out->data[at.y] += in[0].data[at.x] * in[1].data[at.w];
}
static void add_x(const bd_tensor *in, bd_tensor *out, point at) {
  out->data[at.x] += in[0].data[at.y] * in[1].data[at.w];
}
static void add_w(const bd_tensor *in, bd_tensor *out, point at) {
  out->data[at.w] += in[0].data[at.x] * in[1].data[at.y];
}

BD_EVAL(conv) {
  (void)key, (void)scratch;
  shape s = shape_of(op, &in[0].type, &in[1].type, &out->type);
  walk(&s, in, out, add_y);
}

BD_EVAL(conv_dx) {
  (void)key, (void)scratch;
  shape s = shape_of(op, &out->type, &in[1].type, &in[0].type);
  walk(&s, in, out, add_x);
}

BD_EVAL(conv_dw) {
  (void)key, (void)scratch;
  shape s = shape_of(op, &in[0].type, &out->type, &in[1].type);
  walk(&s, in, out, add_w);
}

// One of the three, with the op's windows; what it makes has the extents of `made`, where that is
// an image or a filter.
static bd_status append(bd_ctx *ctx, bd_gradient *g, bd_op_kind kind, bd_id a, bd_id b,
                        const bd_type *made, bd_id *out) {
  static const char *const names[] = {"strides", "dilations", "pads", "groups", "channels_last"};
  enum { NAMES = sizeof names / sizeof *names };
  bd_attr attrs[NAMES + 1];
  int count = 0;
  for (int i = 0; i < NAMES; i++) {
    const bd_attr *attr = bd_op_find_attr(g->op, names[i]);
    if (attr) attrs[count++] = *attr;
  }
  if (kind == BD_OP_CONV_DX)
    attrs[count++] = bd_attr_ints(ctx, "dims", made->rank - 2,
                                  made->dims + bd_image_order_of(g->op, made->rank).extents);
  if (kind == BD_OP_CONV_DW)
    attrs[count++] = bd_attr_ints(ctx, "kernel", made->rank - 2, made->dims + 2);
  return bd_build(ctx, g->backward, kind, 2, (bd_id[]){a, b}, count, attrs, g->op->loc, out);
}

BD_GRADIENT(conv) {
  if (g->need[0])
    BD_TRY(append(ctx, g, BD_OP_CONV_DX, g->dout[0], bd_gradient_operand(g, 1),
                  bd_gradient_operand_type(g, 0), &g->din[0]));
  if (g->need[1])
    BD_TRY(append(ctx, g, BD_OP_CONV_DW, bd_gradient_operand(g, 0), g->dout[0],
                  bd_gradient_operand_type(g, 1), &g->din[1]));
  return BD_OK;
}

BD_GRADIENT(conv_dx) {
  if (g->need[0])
    BD_TRY(append(ctx, g, BD_OP_CONV, g->dout[0], bd_gradient_operand(g, 1), NULL, &g->din[0]));
  if (g->need[1])
    BD_TRY(append(ctx, g, BD_OP_CONV_DW, g->dout[0], bd_gradient_operand(g, 0),
                  bd_gradient_operand_type(g, 1), &g->din[1]));
  return BD_OK;
}

BD_GRADIENT(conv_dw) {
  if (g->need[0])
    BD_TRY(append(ctx, g, BD_OP_CONV_DX, bd_gradient_operand(g, 1), g->dout[0],
                  bd_gradient_operand_type(g, 0), &g->din[0]));
  if (g->need[1])
    BD_TRY(append(ctx, g, BD_OP_CONV, bd_gradient_operand(g, 0), g->dout[0], NULL, &g->din[1]));
  return BD_OK;
}
