// The soft Dice loss of a segmentation (Milletari, Navab, Ahmadi 2016, V-Net: Fully Convolutional
// Neural Networks for Volumetric Medical Image Segmentation, section 3), a class at a time.
#include "frontend/onnx/lower/layout.h"

// Scores [B, classes, places..] of the graph, and the letters of its dimensions: A, B, C, ...
typedef struct segmentation {
  bd_onnx_lowering *l;
  bd_type type;
  const char *all, *places; // every dimension; those without the classes
} segmentation;

static bd_status reduce(const segmentation *s, bd_op_kind kind, bd_id x, const char *from,
                        const char *to, bd_id *out) {
  const char *rule = bd_intern_f(s->l->ctx, "%s->%s", from, to);
  return bd_onnx_emit_rule(s->l, kind, 1, &x, rule, out);
}

// x of dimensions `from` for every score.
static bd_status repeat(const segmentation *s, bd_id x, const char *from, bd_id *out) {
  bd_ctx *ctx = s->l->ctx;
  bd_attr attrs[] = {bd_attr_string(ctx, "rule", bd_intern_f(ctx, "%s->%s", from, s->all)),
                     bd_attr_ints(ctx, "dims", s->type.rank, s->type.dims)};
  return bd_onnx_emit(s->l, BD_OP_BROADCAST, 1, &x, 2, attrs, out);
}

static bd_status softmax(const segmentation *s, bd_id x, bd_id *out) {
  bd_id most, sum;
  BD_TRY(reduce(s, BD_OP_REDUCE_MAX, x, s->all, s->places, &most));
  BD_TRY(repeat(s, most, s->places, &most));
  BD_TRY(bd_onnx_emit2(s->l, BD_OP_SUB, x, most, &x));
  BD_TRY(bd_onnx_emit1(s->l, BD_OP_EXP, x, &x));
  BD_TRY(reduce(s, BD_OP_REDUCE_SUM, x, s->all, s->places, &sum));
  BD_TRY(repeat(s, sum, s->places, &sum));
  return bd_onnx_emit2(s->l, BD_OP_DIV, x, sum, out);
}

// 1 where a place is of a class, else 0.
static bd_status members(const segmentation *s, bd_id targets, bd_id *out) {
  bd_ctx *ctx = s->l->ctx;
  bd_attr attrs[] = {bd_attr_string(ctx, "dtype", bd_dtype_name(BD_I32)),
                     bd_attr_ints(ctx, "dims", 1, &s->type.dims[1]), bd_attr_int(ctx, "dim", 0)};
  bd_id classes;
  BD_TRY(bd_onnx_emit(s->l, BD_OP_IOTA, 0, NULL, 3, attrs, &classes));
  BD_TRY(repeat(s, classes, "B", &classes));
  BD_TRY(repeat(s, targets, s->places, &targets));
  BD_TRY(bd_onnx_emit2(s->l, BD_OP_EQ, classes, targets, out));
  return bd_onnx_emit_cast(s->l, *out, s->type.dtype, out);
}

// 1 where a place has a target, else 0.
static bd_status counted(const segmentation *s, bd_id targets, bd_id *out) {
  bd_id zero;
  BD_TRY(bd_onnx_number_op(s->l, BD_I32, 0, &zero));
  BD_TRY(bd_onnx_emit2(s->l, BD_OP_LE, zero, targets, out));
  BD_TRY(bd_onnx_emit_cast(s->l, *out, s->type.dtype, out));
  return repeat(s, *out, s->places, out);
}

// (2 sum(a b) + e) / (sum(a) + sum(b) + e) over the places of each sample and class.
static bd_status overlap(const segmentation *s, bd_id a, bd_id b, bd_id *out) {
  const double smooth = 1e-5;
  bd_id both, sum;
  BD_TRY(bd_onnx_emit2(s->l, BD_OP_MUL, a, b, &both));
  BD_TRY(reduce(s, BD_OP_REDUCE_SUM, both, s->all, "AB", &both));
  BD_TRY(bd_onnx_emit_real(s->l, BD_OP_SCALE, both, 2, &both));
  BD_TRY(bd_onnx_emit_real(s->l, BD_OP_OFFSET, both, smooth, &both));
  BD_TRY(bd_onnx_emit2(s->l, BD_OP_ADD, a, b, &sum));
  BD_TRY(reduce(s, BD_OP_REDUCE_SUM, sum, s->all, "AB", &sum));
  BD_TRY(bd_onnx_emit_real(s->l, BD_OP_OFFSET, sum, smooth, &sum));
  return bd_onnx_emit2(s->l, BD_OP_DIV, both, sum, out);
}

// A sample's loss counts as often as it has targets: the program divides by their number.
bd_status bd_onnx_dice(bd_onnx_lowering *l, bd_id scores, bd_id targets, bd_id *out) {
  segmentation s = {.l = l, .type = *bd_onnx_type(l, scores)};
  char all[BD_MAX_RANK + 1] = {0};
  for (int d = 0; d < s.type.rank; d++)
    all[d] = (char)('A' + d);
  s.all = bd_intern_z(l->ctx, all);
  s.places = bd_intern_f(l->ctx, "A%s", all + 2);
  bd_id shares, truth, valid, count;
  BD_TRY(softmax(&s, scores, &shares));
  BD_TRY(members(&s, targets, &truth));
  BD_TRY(counted(&s, targets, &valid));
  BD_TRY(bd_onnx_emit2(l, BD_OP_MUL, shares, valid, &shares));
  BD_TRY(overlap(&s, shares, truth, out));
  BD_TRY(reduce(&s, BD_OP_REDUCE_SUM, *out, "AB", "A", out));
  BD_TRY(bd_onnx_emit_real(l, BD_OP_SCALE, *out, -1 / (double)s.type.dims[1], out));
  BD_TRY(bd_onnx_emit_real(l, BD_OP_OFFSET, *out, 1, out));
  BD_TRY(reduce(&s, BD_OP_REDUCE_SUM, truth, s.all, "A", &count));
  BD_TRY(bd_onnx_emit2(l, BD_OP_MUL, *out, count, out));
  return reduce(&s, BD_OP_REDUCE_SUM, *out, "A", "", out);
}
