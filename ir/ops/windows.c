// unfold lays out the elements of every window, fold adds them up where they came from: each is the
// other's gradient.
#include "ir/windows.h"
#include "ir/ops/ops.h"

// Extents: of the dimensions before the windowed ones, of a window, of the windows and of what they
// lie over.
typedef struct shape {
  bd_windows windows;
  int64_t lead, elements, count, under;
  int64_t along[BD_MAX_SPATIAL], extent[BD_MAX_SPATIAL];
} shape;

static shape shape_of(const bd_op *op, const bd_type *under) {
  shape s = {.windows = bd_windows_of(op, 0, NULL), .lead = 1, .count = 1, .under = 1};
  int lead = under->rank - s.windows.count;
  for (int d = 0; d < lead; d++)
    s.lead *= under->dims[d];
  for (int d = 0; d < s.windows.count; d++) {
    s.extent[d] = under->dims[lead + d];
    s.along[d] = bd_windows_along(&s.windows, d, s.extent[d]);
    s.count *= s.along[d];
    s.under *= s.extent[d];
  }
  s.elements = bd_windows_elements(&s.windows);
  return s;
}

// Where element `element` of window `window` lies in what is under, or -1.
static int64_t place_of(const shape *s, int64_t element, int64_t window) {
  int64_t place = 0, stride = 1;
  for (int d = s->windows.count - 1; d >= 0; d--) {
    int64_t i = window % s->along[d], j = element % s->windows.kernel[d];
    int64_t at = i * s->windows.stride[d] + j * s->windows.dilation[d] - s->windows.before[d];
    if (at < 0 || at >= s->extent[d]) return -1;
    place += at * stride;
    stride *= s->extent[d];
    window /= s->along[d];
    element /= s->windows.kernel[d];
  }
  return place;
}

BD_EVAL(unfold) {
  (void)key, (void)scratch;
  shape s = shape_of(op, &in[0].type);
  double fill = bd_dtype_round(out->type.dtype, bd_op_real(op, "value", 0));
  for (int64_t l = 0; l < s.lead; l++)
    for (int64_t e = 0; e < s.elements; e++)
      for (int64_t w = 0; w < s.count; w++) {
        int64_t place = place_of(&s, e, w);
        out->data[(l * s.elements + e) * s.count + w] =
            place < 0 ? fill : in[0].data[l * s.under + place];
      }
}

BD_EVAL(fold) {
  (void)key, (void)scratch;
  shape s = shape_of(op, &out->type);
  for (int64_t l = 0; l < s.lead; l++)
    for (int64_t e = 0; e < s.elements; e++)
      for (int64_t w = 0; w < s.count; w++) {
        int64_t place = place_of(&s, e, w);
        if (place < 0) continue;
        out->data[l * s.under + place] += in[0].data[(l * s.elements + e) * s.count + w];
      }
}

// The op's windows, and `dims` where it is not NULL.
static bd_status with_windows(bd_ctx *ctx, bd_gradient *g, bd_op_kind kind, const bd_attr *dims) {
  static const char *const names[] = {"kernel", "strides", "dilations", "pads"};
  bd_attr attrs[5];
  int count = 0;
  for (int i = 0; i < 4; i++) {
    const bd_attr *attr = bd_op_find_attr(g->op, names[i]);
    if (attr) attrs[count++] = *attr;
  }
  if (dims) attrs[count++] = *dims;
  return bd_build(ctx, g->backward, kind, 1, &g->dout[0], count, attrs, g->op->loc, &g->din[0]);
}

BD_GRADIENT(unfold) {
  const bd_type *type = bd_gradient_operand_type(g, 0);
  int count = bd_windows_of(g->op, 0, NULL).count;
  bd_attr dims = bd_attr_ints(ctx, "dims", count, type->dims + type->rank - count);
  return with_windows(ctx, g, BD_OP_FOLD, &dims);
}

BD_GRADIENT(fold) {
  return with_windows(ctx, g, BD_OP_UNFOLD, NULL);
}
