// Ops that give the same elements another shape or order, or take some of them.
#include "frontend/onnx/lower/layout.h"
#include <string.h>

static bd_status lower_regroup(bd_onnx_lowering *l, const bd_onnx_step *step) {
  bd_onnx_part part;
  BD_TRY(bd_onnx_indices(l, step, 0, &part));
  BD_TRY(bd_onnx_regroup(l, step, step->out[0].rank, step->out[0].dims, &part));
  bd_onnx_made(l, step, 0, part);
  return BD_OK;
}

static bd_status lower_same(bd_onnx_lowering *l, const bd_onnx_step *step) {
  bd_onnx_part part;
  BD_TRY(bd_onnx_indices(l, step, 0, &part));
  bd_onnx_made(l, step, 0, part);
  return BD_OK;
}

// The results of the branch that is taken; those that are known are made where they are used.
static bd_status lower_if(bd_onnx_lowering *l, const bd_onnx_step *step) {
  bool then = bd_onnx_at(step->in[0], 0).integer != 0;
  for (int i = 0; i < step->out_count; i++) {
    int from = 1 + (then ? 0 : step->out_count) + i;
    const bd_onnx_fact *fact = step->in[from];
    bd_onnx_part part;
    if (fact->sequence || (!fact->weight && (bd_onnx_is_known(fact) || fact->diagonals))) continue;
    BD_TRY(bd_onnx_indices(l, step, from, &part));
    bd_onnx_made(l, step, i, part);
  }
  return BD_OK;
}

// Where nothing is dropped, the mask is of ones.
static bd_status keep_all(bd_onnx_lowering *l, const bd_onnx_step *step) {
  const bd_onnx_fact *mask = &step->out[1];
  bd_onnx_part part = {0};
  if (step->out_count > 1 && step->node->out[1] != BD_ONNX_ABSENT) {
    bd_dtype dtype = BD_BOOL;
    (void)bd_onnx_element_type(mask->dtype, &dtype);
    BD_TRY(bd_onnx_number_op(l, dtype, 1, &part.id));
    BD_TRY(bd_onnx_spread(l, step, 0, &part, mask->rank, mask->dims));
    bd_onnx_made(l, step, 1, part);
  }
  return lower_same(l, step);
}

static bool gives_mask(const bd_onnx_lowering *l, const bd_onnx_step *step) {
  int mask = step->out_count > 1 ? step->node->out[1] : BD_ONNX_ABSENT;
  if (mask == BD_ONNX_ABSENT) return false;
  for (int i = 0; i < l->model->output_count; i++)
    if (l->model->outputs[i] == mask) return true;
  return l->used[mask];
}

// In training, a random site of the graph; the mask cannot be had.
static bd_status lower_dropout(bd_onnx_lowering *l, const bd_onnx_step *step) {
  bool same = true;
  bd_onnx_number ratio = {.real = bd_onnx_real(step, "ratio", 0.5)}, training = {.integer = 0};
  if (step->in[2]) BD_TRY(bd_onnx_same_number(l, step, 2, &same, &training));
  if (!step->in[2] && bd_onnx_find(step, "is_test"))
    training.integer = !bd_onnx_int(step, "is_test", 0);
  if (!same)
    return bd_onnx_step_fail(step, BD_UNSUPPORTED, "does not know beforehand whether it trains");
  if (!training.integer) return keep_all(l, step);
  if (step->in[1]) BD_TRY(bd_onnx_same_number(l, step, 1, &same, &ratio));
  if (!same || !(ratio.real >= 0 && ratio.real < 1))
    return bd_onnx_step_fail(step, BD_UNSUPPORTED, "has a ratio that is no known probability");
  if (ratio.real == 0) return keep_all(l, step);
  if (gives_mask(l, step))
    return bd_onnx_step_fail(step, BD_UNSUPPORTED, "trains, and its mask is used");
  bd_onnx_part part;
  BD_TRY(bd_onnx_operand(l, step, 0, &part));
  bd_attr attrs[] = {bd_attr_real(l->ctx, "p", ratio.real),
                     bd_attr_int(l->ctx, "site", l->sites++)};
  BD_TRY(bd_onnx_emit(l, BD_OP_DROPOUT, 1, &part.id, 2, attrs, &part.id));
  bd_onnx_made(l, step, 0, part);
  return BD_OK;
}

static bd_status lower_transpose(bd_onnx_lowering *l, const bd_onnx_step *step) {
  bd_onnx_part in, out;
  const int64_t *order;
  int rank = step->in[0]->rank, count = 0;
  char from[BD_MAX_RANK + 1] = {0}, to[BD_MAX_RANK + 1] = {0};
  BD_TRY(bd_onnx_indices(l, step, 0, &in));
  BD_TRY(bd_onnx_ints(step, "perm", rank, &order));
  for (int d = 0; d < rank; d++) {
    int64_t axis = order ? order[d] : rank - 1 - d;
    out.first[d] = (int8_t)count;
    for (int i = in.first[axis]; i < in.first[axis + 1]; i++)
      to[count++] = (char)('a' + i);
  }
  out.first[rank] = (int8_t)count;
  out.id = in.id;
  for (int i = 0; i < count; i++)
    from[i] = (char)('a' + i);
  if (strcmp(from, to) != 0) {
    const char *rule = bd_intern_f(l->ctx, "%s->%s", from, to);
    BD_TRY(bd_onnx_emit_rule(l, BD_OP_PERMUTE, 1, &in.id, rule, &out.id));
  }
  bd_onnx_made(l, step, 0, out);
  return BD_OK;
}

static bd_status lower_expand(bd_onnx_lowering *l, const bd_onnx_step *step) {
  bd_onnx_part part;
  BD_TRY(bd_onnx_indices(l, step, 0, &part));
  BD_TRY(bd_onnx_spread(l, step, step->in[0]->rank, &part, step->out[0].rank, step->out[0].dims));
  bd_onnx_made(l, step, 0, part);
  return BD_OK;
}

static bd_status lower_slice(bd_onnx_lowering *l, const bd_onnx_step *step) {
  int counts[4], axis, rank = step->in[0]->rank;
  const bd_onnx_number *starts, *ends, *axes, *steps;
  bd_onnx_part part;
  BD_TRY(bd_onnx_indices(l, step, 0, &part));
  BD_TRY(bd_onnx_numbers(step, "starts", 1, &counts[0], &starts));
  BD_TRY(bd_onnx_numbers(step, "ends", 2, &counts[1], &ends));
  BD_TRY(bd_onnx_numbers(step, "axes", 3, &counts[2], &axes));
  BD_TRY(bd_onnx_numbers(step, NULL, 4, &counts[3], &steps));
  for (int i = 0; i < counts[0]; i++) {
    BD_TRY(bd_onnx_axis(step, axes ? axes[i].integer : i, rank, &axis));
    bd_onnx_number extent = step->in[0]->dims[axis], size = step->out[0].dims[axis];
    if (extent.batch && bd_onnx_same(extent, size)) continue;
    if (extent.batch)
      return bd_onnx_step_fail(
          step, BD_UNSUPPORTED,
          "takes a part of dimension %d, which is the batch; samples must be apart", axis);
    int64_t by = steps ? steps[i].integer : 1, start = starts[i].integer;
    start = start < 0 ? start + extent.integer : start;
    start = start < 0 ? 0 : start >= extent.integer ? extent.integer - 1 : start;
    BD_TRY(bd_onnx_cut(l, step, rank, axis, start, by, size.integer, &part));
  }
  bd_onnx_made(l, step, 0, part);
  return BD_OK;
}

static bd_status lower_split(bd_onnx_lowering *l, const bd_onnx_step *step) {
  int axis, rank = step->in[0]->rank;
  int64_t start = 0;
  bd_onnx_part whole;
  BD_TRY(bd_onnx_indices(l, step, 0, &whole));
  BD_TRY(bd_onnx_axis(step, bd_onnx_int(step, "axis", 0), rank, &axis));
  if (step->in[0]->dims[axis].batch && step->out_count > 1)
    return bd_onnx_step_fail(step, BD_UNSUPPORTED, "parts the batch");
  BD_TRY(bd_onnx_join(l, step, rank, step->out_count > 1 ? 1U << axis : 0, &whole));
  for (int i = 0; i < step->out_count; i++) {
    bd_onnx_part part = whole;
    int64_t size = step->out[i].dims[axis].integer;
    bool used = step->node->out[i] != BD_ONNX_ABSENT && size > 0;
    if (used && step->out_count > 1)
      BD_TRY(bd_onnx_cut(l, step, rank, axis, start, 1, size, &part));
    if (used) bd_onnx_made(l, step, i, part);
    start += size;
  }
  return BD_OK;
}

// The joined dimension is one of the graph's in every operand, also where it is 1; the others meet.
static bd_status align_for_concat(bd_onnx_lowering *l, const bd_onnx_step *step, int count,
                                  const int64_t *extents, int rank, int axis, bd_onnx_part *parts) {
  bd_onnx_factors factors[BD_MAX_RANK] = {{0}};
  for (int i = 0; i < count; i++)
    for (int d = 0; d < rank; d++) {
      bd_onnx_factors own = bd_onnx_factors_of(l, &parts[i], d);
      if (i == 0)
        factors[d] = own;
      else if (d != axis && !bd_onnx_factors_meet(&factors[d], &own, &factors[d]))
        return bd_onnx_step_fail(step, BD_UNSUPPORTED, "joins values of different structure");
    }
  for (int i = 0; i < count; i++) {
    factors[axis] = (bd_onnx_factors){1, {extents[i]}};
    BD_TRY(bd_onnx_refit(l, step, rank, factors, &parts[i]));
  }
  return BD_OK;
}

bd_status bd_onnx_concat(bd_onnx_lowering *l, const bd_onnx_step *step, int count,
                         const int64_t *extents, int rank, int axis, bd_onnx_part *parts,
                         bd_onnx_part *out) {
  BD_TRY(align_for_concat(l, step, count, extents, rank, axis, parts));
  bd_attr dim = bd_attr_int(l->ctx, "dim", parts[0].first[axis]);
  *out = parts[0];
  // The op takes up to 8 operands: what is joined so far is the first of the next.
  for (int i = 1; i < count;) {
    bd_id in[BD_MAX_OPERANDS] = {out->id};
    int operands = 1;
    while (operands < BD_MAX_OPERANDS && i < count)
      in[operands++] = parts[i++].id;
    BD_TRY(bd_onnx_emit(l, BD_OP_CONCAT, operands, in, 1, &dim, &out->id));
  }
  return BD_OK;
}

static bd_status lower_concat(bd_onnx_lowering *l, const bd_onnx_step *step) {
  int axis, rank = step->in[0]->rank;
  bd_onnx_part *parts = BD_NEW_ARRAY(l->ctx->arena, bd_onnx_part, step->in_count), out;
  int64_t *extents = BD_NEW_ARRAY(l->ctx->arena, int64_t, step->in_count);
  BD_TRY(bd_onnx_axis(step, bd_onnx_int(step, "axis", 1), rank, &axis));
  if (step->out[0].dims[axis].batch && step->in_count > 1)
    return bd_onnx_step_fail(step, BD_UNSUPPORTED, "joins along the batch");
  if (step->in_count == 1) return lower_same(l, step);
  for (int i = 0; i < step->in_count; i++) {
    extents[i] = step->in[i]->dims[axis].integer;
    BD_TRY(bd_onnx_operand(l, step, i, &parts[i]));
  }
  BD_TRY(bd_onnx_concat(l, step, step->in_count, extents, rank, axis, parts, &out));
  bd_onnx_made(l, step, 0, out);
  return BD_OK;
}

static const bd_onnx_lower_rule rules[] = {
    {"Concat", lower_concat, BD_OP_CONCAT},        {"Dropout", lower_dropout, BD_OP_DROPOUT},
    {"Expand", lower_expand, BD_OP_BROADCAST},     {"Flatten", lower_regroup, BD_OP_RESHAPE},
    {"Identity", lower_same, BD_OP_RESHAPE},       {"If", lower_if, BD_OP_RESHAPE},
    {"Reshape", lower_regroup, BD_OP_RESHAPE},     {"Slice", lower_slice, BD_OP_SLICE},
    {"Split", lower_split, BD_OP_SLICE},           {"Squeeze", lower_regroup, BD_OP_RESHAPE},
    {"Transpose", lower_transpose, BD_OP_PERMUTE}, {"Unsqueeze", lower_regroup, BD_OP_RESHAPE},
};
const bd_onnx_lower_rules bd_onnx_lower_shapes = {sizeof rules / sizeof *rules, rules};
