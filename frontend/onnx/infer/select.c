// Ops that join, part, or pick elements by indices.
#include "frontend/onnx/infer/view.h"
#include <string.h>

// Copies the operands' elements, a block of each in turn.
static bd_status fold_concat(bd_onnx_step *step, int axis) {
  bool foldable;
  BD_TRY(bd_onnx_can_fold(step, step->in_count, &foldable));
  const bd_onnx_fact *out = &step->out[0];
  if (!foldable || !bd_onnx_plain(out) || bd_onnx_count(out) > BD_ONNX_MOST_KNOWN) return BD_OK;
  int64_t outer = 1, inner = 1, filled = 0;
  for (int d = 0; d < out->rank; d++)
    *(d < axis ? &outer : &inner) *= d == axis ? 1 : out->dims[d].integer;
  bd_onnx_number *known = bd_onnx_fold(step, 0);
  for (int64_t o = 0; o < outer; o++)
    for (int i = 0; i < step->in_count; i++) {
      int64_t block = step->in[i]->dims[axis].integer * inner;
      for (int64_t k = 0; k < block; k++)
        known[filled++] = bd_onnx_at(step->in[i], o * block + k);
    }
  return BD_OK;
}

static bd_status infer_concat(bd_onnx_step *step) {
  const bd_onnx_fact *first = step->in[0];
  int axis;
  BD_TRY(bd_onnx_axis(step, bd_onnx_int(step, "axis", 1), first->rank, &axis));
  bd_onnx_number dims[BD_MAX_RANK];
  memcpy(dims, first->dims, (size_t)first->rank * sizeof *dims);
  for (int i = 1; i < step->in_count; i++) {
    const bd_onnx_fact *in = step->in[i];
    if (!in) return bd_onnx_step_fail(step, BD_INVALID, "operand %d is left out", i);
    bool good = in->rank == first->rank;
    for (int d = 0; good && d < in->rank; d++)
      good = d == axis || bd_onnx_same(in->dims[d], dims[d]);
    if (!good)
      return bd_onnx_step_fail(step, BD_INVALID, "its operands' shapes do not agree: %s and %s",
                               bd_onnx_dims_text(step->ctx, first->rank, first->dims),
                               bd_onnx_dims_text(step->ctx, in->rank, in->dims));
    if (!bd_onnx_add(dims[axis], in->dims[axis], &dims[axis]))
      return bd_onnx_step_fail(
          step, BD_UNSUPPORTED,
          "joins along dimension %d, which is the batch; samples must be apart", axis);
  }
  BD_TRY(bd_onnx_shape(step, 0, first->rank, dims));
  return fold_concat(step, axis);
}

static bd_status fold_split(bd_onnx_step *step, int axis) {
  bool foldable;
  BD_TRY(bd_onnx_can_move(step, step->out_count, &foldable));
  if (!foldable) return BD_OK;
  int64_t strides[BD_MAX_RANK], start = 0;
  bd_onnx_strides(step->in[0], strides);
  for (int i = 0; i < step->out_count; i++) {
    bd_onnx_view view = {.start = start * strides[axis]};
    for (int d = 0; d < step->out[i].rank; d++) {
      view.period[d] = step->out[i].dims[d].integer;
      view.step[d] = strides[d];
    }
    bd_onnx_fold_view(step, i, &view);
    start += step->out[i].dims[axis].integer;
  }
  return BD_OK;
}

static bd_status infer_split(bd_onnx_step *step) {
  const bd_onnx_fact *in = step->in[0];
  int axis, count = 0;
  const bd_onnx_number *sizes;
  BD_TRY(bd_onnx_axis(step, bd_onnx_int(step, "axis", 0), in->rank, &axis));
  BD_TRY(bd_onnx_numbers(step, "split", 1, &count, &sizes));
  int64_t parts = bd_onnx_int(step, "num_outputs", step->out_count);
  bd_onnx_number dims[BD_MAX_RANK], whole = in->dims[axis], left = whole, part;
  memcpy(dims, in->dims, (size_t)in->rank * sizeof *dims);
  if (parts != step->out_count || (sizes && count != step->out_count))
    return bd_onnx_step_fail(step, BD_INVALID, "has %d results, and sizes for %d", step->out_count,
                             sizes ? count : (int)parts);
  // Since version 18 the last part may be smaller; before, the parts are equal.
  bd_onnx_number rounded = whole;
  if (step->rule->since >= 18 && !whole.batch) rounded.integer += parts - 1;
  if (!sizes && (!bd_onnx_remainder(rounded, bd_onnx_whole(parts), &part) ||
                 (step->rule->since < 18 && part.integer != 0)))
    return bd_onnx_step_fail(step, BD_INVALID, "cannot split %s evenly in %d along dimension %d",
                             bd_onnx_dims_text(step->ctx, in->rank, in->dims), (int)parts, axis);
  bool good = sizes || bd_onnx_divide(rounded, bd_onnx_whole(parts), &part);
  for (int i = 0; good && i < step->out_count; i++) {
    bool last = i == step->out_count - 1;
    dims[axis] = sizes ? sizes[i] : last ? left : part;
    good =
        dims[axis].integer >= 0 && bd_onnx_subtract(left, dims[axis], &left) && left.integer >= 0;
    if (good) BD_TRY(bd_onnx_shape(step, i, in->rank, dims));
  }
  if (!good || left.integer != 0)
    return bd_onnx_step_fail(step, BD_INVALID,
                             "the sizes of its parts do not add up to dimension %d "
                             "of %s",
                             axis, bd_onnx_dims_text(step->ctx, in->rank, in->dims));
  return fold_split(step, axis);
}

static bd_status fold_gather(bd_onnx_step *step, int axis) {
  bool foldable;
  BD_TRY(bd_onnx_can_fold(step, 2, &foldable));
  const bd_onnx_fact *in = step->in[0], *picks = step->in[1], *out = &step->out[0];
  if (!foldable || !bd_onnx_plain(out) || bd_onnx_count(out) > BD_ONNX_MOST_KNOWN) return BD_OK;
  int64_t outer = 1, inner = 1, extent = in->dims[axis].integer, count = bd_onnx_count(picks);
  for (int d = 0; d < in->rank; d++)
    *(d < axis ? &outer : &inner) *= d == axis ? 1 : in->dims[d].integer;
  bd_onnx_number *known = bd_onnx_fold(step, 0);
  for (int64_t o = 0; o < outer; o++)
    for (int64_t p = 0; p < count; p++) {
      bd_onnx_number pick = bd_onnx_at(picks, p);
      int64_t row = pick.integer < 0 ? pick.integer + extent : pick.integer;
      if (pick.batch || row < 0 || row >= extent)
        return bd_onnx_step_fail(step, BD_INVALID, "index %lld is outside of an extent of %lld",
                                 (long long)pick.integer, (long long)extent);
      for (int64_t k = 0; k < inner; k++)
        *known++ = bd_onnx_at(in, (o * extent + row) * inner + k);
    }
  return BD_OK;
}

static bd_status infer_gather(bd_onnx_step *step) {
  const bd_onnx_fact *in = step->in[0], *picks = step->in[1];
  int axis, rank = 0;
  bd_onnx_number dims[2 * BD_MAX_RANK];
  BD_TRY(bd_onnx_axis(step, bd_onnx_int(step, "axis", 0), in->rank, &axis));
  for (int d = 0; d < axis; d++)
    dims[rank++] = in->dims[d];
  for (int d = 0; d < picks->rank; d++)
    dims[rank++] = picks->dims[d];
  for (int d = axis + 1; d < in->rank; d++)
    dims[rank++] = in->dims[d];
  BD_TRY(bd_onnx_shape(step, 0, rank, dims));
  return fold_gather(step, axis);
}

static bd_status infer_gather_elements(bd_onnx_step *step) {
  int axis;
  BD_TRY(bd_onnx_axis(step, bd_onnx_int(step, "axis", 0), step->in[0]->rank, &axis));
  if (step->in[0]->rank != step->in[1]->rank)
    return bd_onnx_step_fail(step, BD_INVALID, "its operands have %d and %d dimensions",
                             step->in[0]->rank, step->in[1]->rank);
  return bd_onnx_shape_of(step, 0, 1);
}

// Indices [.., k] name the first k dimensions after the `batch_dims` that both have.
static bd_status infer_gather_nd(bd_onnx_step *step) {
  const bd_onnx_fact *in = step->in[0], *picks = step->in[1];
  int64_t shared = bd_onnx_int(step, "batch_dims", 0);
  bd_onnx_number dims[2 * BD_MAX_RANK];
  int rank = 0;
  bool good = picks->rank > 0 && shared >= 0 && shared < picks->rank && shared < in->rank;
  bd_onnx_number named = good ? picks->dims[picks->rank - 1] : bd_onnx_whole(0);
  good = good && !named.batch && named.integer >= 1 && named.integer <= in->rank - shared;
  for (int d = 0; good && d < shared; d++)
    good = bd_onnx_same(in->dims[d], picks->dims[d]);
  if (!good) return bd_onnx_step_fail(step, BD_INVALID, "its indices do not fit its data");
  for (int d = 0; d < picks->rank - 1; d++)
    dims[rank++] = picks->dims[d];
  for (int d = (int)(shared + named.integer); d < in->rank; d++)
    dims[rank++] = in->dims[d];
  return bd_onnx_shape(step, 0, rank, dims);
}

static bd_status infer_scatter(bd_onnx_step *step) {
  const bd_onnx_fact *in = step->in[0], *picks = step->in[1], *updates = step->in[2];
  int axis;
  BD_TRY(bd_onnx_axis(step, bd_onnx_int(step, "axis", 0), in->rank, &axis));
  bool good = in->rank == picks->rank && in->rank == updates->rank;
  for (int d = 0; good && d < in->rank; d++)
    good = bd_onnx_same(picks->dims[d], updates->dims[d]);
  if (!good) return bd_onnx_step_fail(step, BD_INVALID, "its operands' shapes do not agree");
  return bd_onnx_shape_of(step, 0, 0);
}

static bd_status infer_scatter_nd(bd_onnx_step *step) {
  const bd_onnx_fact *in = step->in[0], *picks = step->in[1], *updates = step->in[2];
  bool good = picks->rank > 0 && !picks->dims[picks->rank - 1].batch;
  int64_t named = good ? picks->dims[picks->rank - 1].integer : 0;
  good = good && named >= 1 && named <= in->rank &&
         updates->rank == picks->rank - 1 + in->rank - named;
  for (int d = 0; good && d < updates->rank; d++)
    good = bd_onnx_same(updates->dims[d], d < picks->rank - 1
                                              ? picks->dims[d]
                                              : in->dims[d - (picks->rank - 1) + named]);
  if (!good) return bd_onnx_step_fail(step, BD_INVALID, "its operands' shapes do not agree");
  return bd_onnx_shape_of(step, 0, 0);
}

static const bd_onnx_rule rules[] = {
    {"Concat", 4, "t*=t", "axis:i", 0, infer_concat, NULL},
    {"Gather", 1, "ti=t", "axis:i", 0, infer_gather, NULL},
    {"GatherElements", 11, "ti=t", "axis:i", 0, infer_gather_elements, NULL},
    {"GatherND", 11, "tl=t", "", 0, infer_gather_nd, NULL},
    {"GatherND", 12, "tl=t", "batch_dims:i", 0, infer_gather_nd, NULL},
    {"Scatter", 9, "tit=t", "axis:i", 0, infer_scatter, NULL},
    {"ScatterElements", 11, "tit=t", "axis:i", 0, infer_scatter, NULL},
    {"ScatterElements", 16, "tit=t", "axis:i reduction:s{none,add,mul}", 0, infer_scatter, NULL},
    {"ScatterElements", 18, "tit=t", "axis:i reduction:s{none,add,mul,max,min}", 0, infer_scatter,
     NULL},
    {"ScatterND", 11, "tlt=t", "", 0, infer_scatter_nd, NULL},
    {"ScatterND", 16, "tlt=t", "reduction:s{none,add,mul}", 0, infer_scatter_nd, NULL},
    {"ScatterND", 18, "tlt=t", "reduction:s{none,add,mul,max,min}", 0, infer_scatter_nd, NULL},
    {"Split", 2, "t=t*", "axis:i split:I", 0, infer_split, NULL},
    {"Split", 13, "tl?=t*", "axis:i", 1U << 1, infer_split, NULL},
    {"Split", 18, "tl?=t*", "axis:i num_outputs:i", 1U << 1, infer_split, NULL},
};
const bd_onnx_rules bd_onnx_select_rules = {sizeof rules / sizeof *rules, rules};
