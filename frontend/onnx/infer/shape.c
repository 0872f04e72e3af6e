// Ops on shapes: what a shape is, and other shapes for the same elements.
#include "frontend/onnx/infer/step.h"

static bd_status infer_shape(bd_onnx_step *step) {
  const bd_onnx_fact *in = step->in[0];
  int64_t start = bd_onnx_int(step, "start", 0), end = bd_onnx_int(step, "end", in->rank);
  start = start < 0 ? start + in->rank : start;
  end = end < 0 ? end + in->rank : end;
  start = start < 0 ? 0 : start > in->rank ? in->rank : start;
  end = end < start ? start : end > in->rank ? in->rank : end;
  bd_onnx_number count = bd_onnx_whole(end - start);
  BD_TRY(bd_onnx_shape(step, 0, 1, &count));
  bd_onnx_number *known = bd_onnx_fold(step, 0);
  for (int64_t d = start; d < end; d++)
    known[d - start] = in->dims[d];
  return BD_OK;
}

static bd_status infer_size(bd_onnx_step *step) {
  const bd_onnx_fact *in = step->in[0];
  BD_TRY(bd_onnx_shape(step, 0, 0, NULL));
  bd_onnx_number *known = bd_onnx_fold(step, 0);
  return bd_onnx_product(in->dims, in->rank, known)
             ? BD_OK
             : bd_onnx_step_fail(step, BD_UNSUPPORTED, "the size is not known");
}

static bd_status infer_identity(bd_onnx_step *step) {
  BD_TRY(bd_onnx_shape_of(step, 0, 0));
  step->out[0].weight = step->in[0]->weight;
  step->out[0].tensor = step->in[0]->tensor;
  step->out[0].known = step->in[0]->known;
  step->out[0].uniform = step->in[0]->uniform;
  bd_onnx_keep_diagonals(step, 0);
  return BD_OK;
}

static bd_status fail_reshape(const bd_onnx_step *step, int rank, const bd_onnx_number *dims) {
  const bd_onnx_fact *in = step->in[0];
  return bd_onnx_step_fail(
      step, BD_INVALID,
      "the elements of %s cannot be given the shape %s; if the first is the batch, the model was "
      "exported with a fixed one (export it with dynamic axes)",
      bd_onnx_dims_text(step->ctx, in->rank, in->dims), bd_onnx_dims_text(step->ctx, rank, dims));
}

// A 0 copies the operand's extent (unless `allowzero`), one -1 takes what is left.
static bd_status infer_reshape(bd_onnx_step *step) {
  const bd_onnx_fact *in = step->in[0];
  const bd_onnx_number *shape;
  int rank = 0, open = -1;
  bd_onnx_number dims[BD_MAX_RANK], total, rest = bd_onnx_whole(1);
  BD_TRY(bd_onnx_numbers(step, "shape", 1, &rank, &shape));
  if (rank > BD_MAX_RANK)
    return bd_onnx_step_fail(step, BD_UNSUPPORTED, "its result has %d dimensions; at most %d", rank,
                             BD_MAX_RANK);
  bool copies = bd_onnx_int(step, "allowzero", 0) == 0;
  bool good = bd_onnx_product(in->dims, in->rank, &total);
  for (int d = 0; d < rank && good; d++) {
    dims[d] = shape[d];
    if (copies && bd_onnx_is(shape[d], 0)) {
      good = d < in->rank;
      if (good) dims[d] = in->dims[d];
    }
    if (bd_onnx_is(shape[d], -1)) {
      good = open < 0;
      open = d;
    } else if (good) {
      good = dims[d].integer >= 0 && bd_onnx_multiply(rest, dims[d], &rest);
    }
  }
  if (good && open >= 0) {
    bd_onnx_number left = bd_onnx_whole(0);
    good = rest.integer == 0 || (bd_onnx_remainder(total, rest, &left) && left.integer == 0 &&
                                 bd_onnx_divide(total, rest, &dims[open]));
    if (rest.integer == 0) dims[open] = bd_onnx_whole(0);
  } else {
    good = good && bd_onnx_same(total, rest);
  }
  if (!good) return fail_reshape(step, rank, shape);
  BD_TRY(bd_onnx_shape(step, 0, rank, dims));
  return bd_onnx_fold_same(step, 0);
}

static bd_status infer_flatten(bd_onnx_step *step) {
  const bd_onnx_fact *in = step->in[0];
  int64_t axis = bd_onnx_int(step, "axis", 1);
  if (axis < 0) axis += in->rank;
  if (axis < 0 || axis > in->rank)
    return bd_onnx_step_fail(step, BD_INVALID, "axis %lld is outside of %d dimensions",
                             (long long)axis, in->rank);
  bd_onnx_number dims[2];
  if (!bd_onnx_product(in->dims, (int)axis, &dims[0]) ||
      !bd_onnx_product(in->dims + axis, in->rank - (int)axis, &dims[1]))
    return fail_reshape(step, 0, NULL);
  BD_TRY(bd_onnx_shape(step, 0, 2, dims));
  return bd_onnx_fold_same(step, 0);
}

static bd_status infer_squeeze(bd_onnx_step *step) {
  const bd_onnx_fact *in = step->in[0];
  int count = 0, rank = 0;
  unsigned axes = 0;
  bd_onnx_number dims[BD_MAX_RANK];
  BD_TRY(bd_onnx_axes(step, 1, in->rank, &count, &axes));
  bool all = !step->in[1] && !bd_onnx_find(step, "axes");
  for (int d = 0; d < in->rank; d++) {
    bool one = bd_onnx_is(in->dims[d], 1), named = axes >> d & 1;
    if (named && !one)
      return bd_onnx_step_fail(step, BD_INVALID, "dimension %d of %s is not 1 and cannot go", d,
                               bd_onnx_dims_text(step->ctx, in->rank, in->dims));
    if (!named && !(all && one)) dims[rank++] = in->dims[d];
  }
  BD_TRY(bd_onnx_shape(step, 0, rank, dims));
  return bd_onnx_fold_same(step, 0);
}

static bd_status infer_unsqueeze(bd_onnx_step *step) {
  const bd_onnx_fact *in = step->in[0];
  int count = 0, from = 0;
  unsigned axes = 0;
  const bd_onnx_number *numbers;
  BD_TRY(bd_onnx_numbers(step, "axes", 1, &count, &numbers));
  if (in->rank + count > BD_MAX_RANK)
    return bd_onnx_step_fail(step, BD_UNSUPPORTED, "its result has %d dimensions; at most %d",
                             in->rank + count, BD_MAX_RANK);
  BD_TRY(bd_onnx_axes(step, 1, in->rank + count, &count, &axes));
  bd_onnx_number dims[BD_MAX_RANK];
  for (int d = 0; d < in->rank + count; d++)
    dims[d] = axes >> d & 1 ? bd_onnx_whole(1) : in->dims[from++];
  BD_TRY(bd_onnx_shape(step, 0, in->rank + count, dims));
  return bd_onnx_fold_same(step, 0);
}

static bd_status infer_dropout(bd_onnx_step *step) {
  BD_TRY(bd_onnx_shape_of(step, 0, 0));
  if (step->out_count < 2) return BD_OK;
  if (step->rule->since < 10) step->out[1].dtype = step->in[0]->dtype;
  return bd_onnx_shape_of(step, 1, 0);
}

static const bd_onnx_rule rules[] = {
    {"Dropout", 6, "f=fx?", "ratio:f is_test:i", 0, infer_dropout, NULL},
    {"Dropout", 7, "f=fx?", "ratio:f", 0, infer_dropout, NULL},
    {"Dropout", 10, "f=fb?", "ratio:f", 0, infer_dropout, NULL},
    {"Dropout", 12, "fg?b?=fb?", "seed:i", 1U << 1 | 1U << 2, infer_dropout, NULL},
    {"Flatten", 1, "t=t", "axis:i", 0, infer_flatten, NULL},
    {"Identity", 1, "t=t", "", 0, infer_identity, NULL},
    {"Reshape", 1, "t=t", "shape:I consumed_inputs:I", 0, infer_reshape, NULL},
    {"Reshape", 5, "tl=t", "", 1U << 1, infer_reshape, NULL},
    {"Reshape", 14, "tl=t", "allowzero:i", 1U << 1, infer_reshape, NULL},
    {"Shape", 1, "t=l", "", 0, infer_shape, NULL},
    {"Shape", 15, "t=l", "start:i end:i", 0, infer_shape, NULL},
    {"Size", 1, "t=l", "", 0, infer_size, NULL},
    {"Squeeze", 1, "t=t", "axes:I", 0, infer_squeeze, NULL},
    {"Squeeze", 13, "tl?=t", "", 1U << 1, infer_squeeze, NULL},
    {"Unsqueeze", 1, "t=t", "axes:I", 0, infer_unsqueeze, NULL},
    {"Unsqueeze", 13, "tl=t", "", 1U << 1, infer_unsqueeze, NULL},
};
const bd_onnx_rules bd_onnx_shape_rules = {sizeof rules / sizeof *rules, rules};
