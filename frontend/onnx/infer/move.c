// Ops that move elements as the shape alone says: transpositions, slices, repetitions.
#include "frontend/onnx/infer/view.h"

static bd_status infer_transpose(bd_onnx_step *step) {
  const bd_onnx_fact *in = step->in[0];
  const int64_t *order;
  unsigned seen = 0;
  int from[BD_MAX_RANK];
  bd_onnx_number dims[BD_MAX_RANK];
  BD_TRY(bd_onnx_ints(step, "perm", in->rank, &order));
  for (int d = 0; d < in->rank; d++) {
    int64_t axis = order ? order[d] : in->rank - 1 - d;
    if (axis < 0 || axis >= in->rank || (seen >> axis & 1))
      return bd_onnx_step_fail(step, BD_INVALID, "its perm is no order of %d dimensions", in->rank);
    seen |= 1U << axis;
    from[d] = (int)axis;
    dims[d] = in->dims[axis];
  }
  BD_TRY(bd_onnx_shape(step, 0, in->rank, dims));
  bool foldable;
  BD_TRY(bd_onnx_can_move(step, 1, &foldable));
  if (!foldable) return BD_OK;
  bd_onnx_view view = {0};
  int64_t strides[BD_MAX_RANK];
  bd_onnx_strides(in, strides);
  for (int d = 0; d < in->rank; d++) {
    view.period[d] = dims[d].integer;
    view.step[d] = strides[from[d]];
  }
  bd_onnx_fold_view(step, 0, &view);
  return BD_OK;
}

// One dimension of a slice, in the operand's numbers.
typedef struct range {
  int64_t start, step;
  bd_onnx_number count;
} range;

static int64_t clamp(int64_t value, int64_t low, int64_t high) {
  return value < low ? low : value > high ? high : value;
}

static bd_status settle_range(const bd_onnx_step *step, int axis, bd_onnx_number extent,
                              bd_onnx_number start, bd_onnx_number end, bd_onnx_number by,
                              range *out) {
  *out = (range){.step = by.integer, .count = extent};
  if (by.batch || by.integer == 0)
    return bd_onnx_step_fail(step, BD_INVALID, "slices dimension %d with a step of 0", axis);
  if (extent.batch) {
    bool to_end = bd_onnx_same(end, extent) || (!end.batch && end.integer > BD_MAX_ELEMENTS);
    if (bd_onnx_is(start, 0) && to_end && by.integer == 1) return BD_OK;
    // A few of the first rows have a shape, which may be all that is asked for.
    bool first = extent.selection == 0 && !start.batch && !end.batch && start.integer >= 0;
    if (first && start.integer < end.integer && end.integer <= extent.integer && by.integer == 1) {
      out->start = start.integer;
      out->count = bd_onnx_whole(end.integer - start.integer);
      return BD_OK;
    }
    return bd_onnx_step_fail(
        step, BD_UNSUPPORTED,
        "takes a part of dimension %d, which is the batch; samples must be apart", axis);
  }
  if (start.batch || end.batch)
    return bd_onnx_step_fail(step, BD_UNSUPPORTED,
                             "slices dimension %d at a number that depends on the batch", axis);
  int64_t size = extent.integer, first = start.integer, last = end.integer;
  first = first < 0 ? first + size : first; // never past the least: both are above -2^63
  last = last < 0 ? (last < -size ? -1 : last + size) : last;
  if (by.integer > 0) {
    first = clamp(first, 0, size);
    last = clamp(end.integer < -size ? 0 : last, 0, size);
  } else {
    first = clamp(first, 0, size - 1);
    last = clamp(last, -1, size - 1);
  }
  int64_t length = by.integer > 0 ? last - first : first - last;
  uint64_t stride = by.integer > 0 ? (uint64_t)by.integer : (uint64_t)0 - (uint64_t)by.integer;
  out->start = first;
  out->count = bd_onnx_whole(length <= 0 ? 0 : (int64_t)(((uint64_t)length + stride - 1) / stride));
  return BD_OK;
}

static bd_status fold_slice(bd_onnx_step *step, const range *ranges) {
  bool foldable, whole = true;
  for (int d = 0; d < step->in[0]->rank; d++)
    whole = whole && ranges[d].start == 0 && ranges[d].step == 1;
  if (whole) bd_onnx_keep_diagonals(step, 0);
  BD_TRY(bd_onnx_can_move(step, 1, &foldable));
  if (!foldable) return BD_OK;
  bd_onnx_view view = {0};
  int64_t strides[BD_MAX_RANK];
  bd_onnx_strides(step->in[0], strides);
  for (int d = 0; d < step->out[0].rank; d++) {
    view.start += ranges[d].start * strides[d];
    view.period[d] = ranges[d].count.integer;
    // A lone element has no neighbour, and its step may be of any size.
    view.step[d] = ranges[d].count.integer > 1 ? ranges[d].step * strides[d] : 0;
  }
  if (bd_onnx_count(&step->out[0]) == 0)
    bd_onnx_fold(step, 0);
  else
    bd_onnx_fold_view(step, 0, &view);
  return BD_OK;
}

static bd_status infer_slice(bd_onnx_step *step) {
  const bd_onnx_fact *in = step->in[0];
  int counts[4], axis;
  const bd_onnx_number *starts, *ends, *axes, *steps;
  range ranges[BD_MAX_RANK];
  bd_onnx_number dims[BD_MAX_RANK];
  unsigned seen = 0;
  BD_TRY(bd_onnx_numbers(step, "starts", 1, &counts[0], &starts));
  BD_TRY(bd_onnx_numbers(step, "ends", 2, &counts[1], &ends));
  BD_TRY(bd_onnx_numbers(step, "axes", 3, &counts[2], &axes));
  BD_TRY(bd_onnx_numbers(step, NULL, 4, &counts[3], &steps));
  if (!starts || !ends || counts[0] > in->rank || counts[1] != counts[0] ||
      (axes && counts[2] != counts[0]) || (steps && counts[3] != counts[0]))
    return bd_onnx_step_fail(step, BD_INVALID,
                             "its starts, ends, axes and steps are not of one number");
  for (int d = 0; d < in->rank; d++)
    ranges[d] = (range){.step = 1, .count = in->dims[d]};
  for (int i = 0; i < counts[0]; i++) {
    BD_TRY(bd_onnx_axis(step, axes ? axes[i].integer : i, in->rank, &axis));
    if (seen >> axis & 1)
      return bd_onnx_step_fail(step, BD_INVALID, "slices dimension %d twice", axis);
    seen |= 1U << axis;
    BD_TRY(settle_range(step, axis, in->dims[axis], starts[i], ends[i],
                        steps ? steps[i] : bd_onnx_whole(1), &ranges[axis]));
  }
  for (int d = 0; d < in->rank; d++)
    dims[d] = ranges[d].count;
  BD_TRY(bd_onnx_shape(step, 0, in->rank, dims));
  return fold_slice(step, ranges);
}

// Folds a result that repeats the operand's extents.
static bd_status fold_repeated(bd_onnx_step *step) {
  const bd_onnx_fact *in = step->in[0], *out = &step->out[0];
  bool foldable;
  BD_TRY(bd_onnx_can_move(step, 1, &foldable));
  bd_onnx_keep_diagonals(step, 0);
  if (!foldable) return BD_OK;
  bd_onnx_view view = {0};
  int64_t strides[BD_MAX_RANK];
  bd_onnx_strides(in, strides);
  for (int d = 0; d < out->rank; d++) {
    int from = d - (out->rank - in->rank);
    view.period[d] = from < 0 ? 1 : in->dims[from].integer;
    view.step[d] = from < 0 ? 0 : strides[from];
  }
  bd_onnx_fold_view(step, 0, &view);
  return BD_OK;
}

static bd_status infer_expand(bd_onnx_step *step) {
  int count = 0, rank = 0;
  const bd_onnx_number *shape;
  bd_onnx_number dims[BD_MAX_RANK];
  BD_TRY(bd_onnx_numbers(step, NULL, 1, &count, &shape));
  if (count > BD_MAX_RANK)
    return bd_onnx_step_fail(step, BD_UNSUPPORTED, "its result has %d dimensions; at most %d",
                             count, BD_MAX_RANK);
  bd_onnx_fact asked = {.rank = count, .dims = shape};
  bd_onnx_fact *both[] = {step->in[0], &asked};
  bd_onnx_step pair = *step;
  pair.in = both;
  BD_TRY(bd_onnx_broadcast(&pair, 0, 2, &rank, dims));
  BD_TRY(bd_onnx_shape(step, 0, rank, dims));
  return fold_repeated(step);
}

static bd_status infer_tile(bd_onnx_step *step) {
  const bd_onnx_fact *in = step->in[0];
  int count = 0;
  const bd_onnx_number *repeats;
  bd_onnx_number dims[BD_MAX_RANK];
  BD_TRY(bd_onnx_numbers(step, NULL, 1, &count, &repeats));
  if (count != in->rank)
    return bd_onnx_step_fail(step, BD_INVALID, "has %d repeats for %d dimensions", count, in->rank);
  for (int d = 0; d < count; d++)
    if (!bd_onnx_multiply(in->dims[d], repeats[d], &dims[d]))
      return bd_onnx_step_fail(step, BD_INVALID, "repeats dimension %d too often", d);
  BD_TRY(bd_onnx_shape(step, 0, count, dims));
  return fold_repeated(step);
}

static bd_status infer_pad(bd_onnx_step *step) {
  const bd_onnx_fact *in = step->in[0];
  const bd_onnx_number *pads;
  int count = 0, axis_count = 0, axis;
  const bd_onnx_number *axes;
  bd_onnx_number dims[BD_MAX_RANK];
  const char *name = step->rule->since < 2 ? "paddings" : "pads";
  BD_TRY(bd_onnx_numbers(step, name, 1, &count, &pads));
  BD_TRY(bd_onnx_numbers(step, NULL, 3, &axis_count, &axes));
  int padded = axes ? axis_count : in->rank;
  if (!pads || count != 2 * padded)
    return bd_onnx_step_fail(step, BD_INVALID, "has %d pads for %d dimensions", count, padded);
  for (int d = 0; d < in->rank; d++)
    dims[d] = in->dims[d];
  for (int i = 0; i < padded; i++) {
    BD_TRY(bd_onnx_axis(step, axes ? axes[i].integer : i, in->rank, &axis));
    if (!bd_onnx_add(dims[axis], pads[i], &dims[axis]) ||
        !bd_onnx_add(dims[axis], pads[padded + i], &dims[axis]))
      return bd_onnx_step_fail(step, BD_UNSUPPORTED,
                               "pads dimension %d, which is the batch, or by "
                               "too much",
                               axis);
  }
  return bd_onnx_shape(step, 0, in->rank, dims);
}

static bd_status infer_trilu(bd_onnx_step *step) {
  if (step->in[0]->rank < 2) return bd_onnx_step_fail(step, BD_INVALID, "its operand is no matrix");
  return bd_onnx_shape_of(step, 0, 0);
}

#define PAD "mode:s{constant,reflect,edge}"
static const bd_onnx_rule rules[] = {
    {"Expand", 8, "tl=t", "", 1U << 1, infer_expand, NULL},
    {"Pad", 1, "f=f", PAD " paddings:I value:f", 0, infer_pad, NULL},
    {"Pad", 2, "f=f", PAD " pads:I value:f", 0, infer_pad, NULL},
    {"Pad", 11, "tlt?=t", PAD, 1U << 1 | 1U << 2, infer_pad, NULL},
    {"Pad", 18, "tlt?i?=t", PAD, 1U << 1 | 1U << 2 | 1U << 3, infer_pad, NULL},
    {"Pad", 19, "tlt?i?=t", "mode:s{constant,reflect,edge,wrap}", 1U << 1 | 1U << 2 | 1U << 3,
     infer_pad, NULL},
    {"Slice", 1, "t=t", "axes:I ends:I starts:I", 0, infer_slice, NULL},
    {"Slice", 10, "tiii?i?=t", "", 1U << 1 | 1U << 2 | 1U << 3 | 1U << 4, infer_slice, NULL},
    {"Tile", 6, "tl=t", "", 1U << 1, infer_tile, NULL},
    {"Transpose", 1, "t=t", "perm:I", 0, infer_transpose, NULL},
    {"Trilu", 14, "tl?=t", "upper:i", 1U << 1, infer_trilu, NULL},
};
const bd_onnx_rules bd_onnx_move_rules = {sizeof rules / sizeof *rules, rules};
