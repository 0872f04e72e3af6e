// Ops along dimensions: sums and their like, places of extremes, running sums, the greatest k.
#include "frontend/onnx/infer/step.h"
#include <math.h>
#include <string.h>

typedef bool (*combine)(bd_onnx_number a, bd_onnx_number b, bd_onnx_number *out);

static bool least(bd_onnx_number a, bd_onnx_number b, bd_onnx_number *out) {
  int sign = 0;
  bool known = bd_onnx_compare(a, b, &sign);
  *out = sign <= 0 ? a : b;
  return known;
}

static bool greatest(bd_onnx_number a, bd_onnx_number b, bd_onnx_number *out) {
  int sign = 0;
  bool known = bd_onnx_compare(a, b, &sign);
  *out = sign >= 0 ? a : b;
  return known;
}

// The integer reductions that arithmetic on shapes uses.
static combine combiner_of(const bd_onnx_step *step) {
  static const struct {
    const char *op;
    combine combine;
  } known[] = {{"ReduceSum", bd_onnx_add},
               {"ReduceProd", bd_onnx_multiply},
               {"ReduceMin", least},
               {"ReduceMax", greatest}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(step->node->op, known[i].op) == 0) return known[i].combine;
  return NULL;
}

// Folds over all elements of a list.
static bd_status fold(bd_onnx_step *step, unsigned axes) {
  const bd_onnx_fact *in = step->in[0];
  combine combine = combiner_of(step);
  bool foldable = false;
  if (!combine || in->rank != 1 || axes != 1 || !bd_onnx_fits_int64(in->dtype)) return BD_OK;
  BD_TRY(bd_onnx_can_fold(step, 1, &foldable));
  if (!foldable || !bd_onnx_plain(in) || bd_onnx_count(in) < 1) return BD_OK;
  bd_onnx_number total = bd_onnx_at(in, 0);
  for (int64_t i = 1; i < bd_onnx_count(in); i++)
    if (!combine(total, bd_onnx_at(in, i), &total)) return BD_OK;
  if (bd_onnx_wrap(in->dtype, &total)) *bd_onnx_fold(step, 0) = total;
  return BD_OK;
}

// A sum of no terms, and its like: reductions of reals over no elements.
static void fold_empty(bd_onnx_step *step) {
  static const struct {
    const char *op;
    double value;
  } neutral[] = {{"ReduceSum", 0},
                 {"ReduceL1", 0},
                 {"ReduceL2", 0},
                 {"ReduceSumSquare", 0},
                 {"ReduceProd", 1},
                 {"ReduceMax", -INFINITY},
                 {"ReduceMin", INFINITY},
                 {"ReduceLogSum", -INFINITY},
                 {"ReduceLogSumExp", -INFINITY}};
  for (size_t i = 0; i < sizeof neutral / sizeof *neutral; i++) {
    if (strcmp(step->node->op, neutral[i].op) != 0) continue;
    bd_onnx_number *known = BD_NEW(step->ctx->arena, bd_onnx_number);
    known->real = neutral[i].value;
    step->out[0].known = known;
    step->out[0].uniform = true;
  }
}

static bd_status shape_without(bd_onnx_step *step, unsigned axes, bool keeps) {
  const bd_onnx_fact *in = step->in[0];
  bd_onnx_number dims[BD_MAX_RANK];
  int rank = 0;
  for (int d = 0; d < in->rank; d++) {
    if (!(axes >> d & 1))
      dims[rank++] = in->dims[d];
    else if (keeps)
      dims[rank++] = bd_onnx_whole(1);
  }
  return bd_onnx_shape(step, 0, rank, dims);
}

static bd_status infer_reduce(bd_onnx_step *step) {
  int count = 0;
  unsigned axes = 0;
  BD_TRY(bd_onnx_axes(step, 1, step->in[0]->rank, &count, &axes));
  if (count == 0) {
    if (bd_onnx_int(step, "noop_with_empty_axes", 0)) return bd_onnx_infer_same(step);
    axes = (1U << step->in[0]->rank) - 1;
  }
  BD_TRY(shape_without(step, axes, bd_onnx_int(step, "keepdims", 1) != 0));
  const bd_onnx_fact *in = step->in[0];
  if (bd_onnx_plain(in) && bd_onnx_count(in) == 0 && bd_onnx_is_float(in->dtype)) {
    fold_empty(step);
    return BD_OK;
  }
  return fold(step, axes);
}

static bd_status infer_arg(bd_onnx_step *step) {
  int axis;
  BD_TRY(bd_onnx_axis(step, bd_onnx_int(step, "axis", 0), step->in[0]->rank, &axis));
  return shape_without(step, 1U << axis, bd_onnx_int(step, "keepdims", 1) != 0);
}

static bd_status infer_top_k(bd_onnx_step *step) {
  const bd_onnx_fact *in = step->in[0];
  int axis;
  bd_onnx_number k = bd_onnx_whole(bd_onnx_int(step, "k", 0)), dims[BD_MAX_RANK];
  BD_TRY(bd_onnx_axis(step, bd_onnx_int(step, "axis", -1), in->rank, &axis));
  if (step->in[1]) BD_TRY(bd_onnx_one(step, 1, &k));
  memcpy(dims, in->dims, (size_t)in->rank * sizeof *dims);
  if (k.batch || k.integer < 0 || dims[axis].batch || k.integer > dims[axis].integer)
    return bd_onnx_step_fail(step, BD_INVALID, "takes %lld of %lld elements", (long long)k.integer,
                             (long long)dims[axis].integer);
  dims[axis] = k;
  BD_TRY(bd_onnx_shape(step, 0, in->rank, dims));
  return step->out_count < 2 ? BD_OK : bd_onnx_shape(step, 1, in->rank, dims);
}

#define BY_ATTRIBUTE(op, since, signature)                                                         \
  { op, since, signature "=" signature, "axes:I keepdims:i", 0, infer_reduce, NULL }
#define BY_OPERAND(op, since, signature)                                                           \
  {                                                                                                \
    op, since, signature "l?=" signature, "keepdims:i noop_with_empty_axes:i", 1U << 1,            \
        infer_reduce, NULL                                                                         \
  }
#define REDUCE(op) BY_ATTRIBUTE(op, 1, "n"), BY_OPERAND(op, 18, "n")

static const bd_onnx_rule rules[] = {
    {"ArgMax", 1, "n=l", "axis:i keepdims:i", 0, infer_arg, NULL},
    {"ArgMax", 12, "n=l", "axis:i keepdims:i select_last_index:i", 0, infer_arg, NULL},
    {"ArgMin", 1, "n=l", "axis:i keepdims:i", 0, infer_arg, NULL},
    {"ArgMin", 12, "n=l", "axis:i keepdims:i select_last_index:i", 0, infer_arg, NULL},
    {"CumSum", 11, "ni=n", "exclusive:i reverse:i", 1U << 1, bd_onnx_infer_same, NULL},
    REDUCE("ReduceL1"),
    REDUCE("ReduceL2"),
    REDUCE("ReduceLogSum"),
    REDUCE("ReduceLogSumExp"),
    REDUCE("ReduceMax"),
    BY_OPERAND("ReduceMax", 20, "t"),
    REDUCE("ReduceMean"),
    REDUCE("ReduceMin"),
    BY_OPERAND("ReduceMin", 20, "t"),
    REDUCE("ReduceProd"),
    BY_ATTRIBUTE("ReduceSum", 1, "n"),
    BY_OPERAND("ReduceSum", 13, "n"),
    REDUCE("ReduceSumSquare"),
    {"TopK", 1, "n=nl", "axis:i k:i", 0, infer_top_k, NULL},
    {"TopK", 10, "nl=nl", "axis:i", 1U << 1, infer_top_k, NULL},
    {"TopK", 11, "nl=nl", "axis:i largest:i sorted:i", 1U << 1, infer_top_k, NULL},
};
const bd_onnx_rules bd_onnx_reduce_rules = {sizeof rules / sizeof *rules, rules};
