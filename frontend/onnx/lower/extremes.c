// Ops that order elements, or run along a dimension: places of extremes, the greatest k, running
// sums.
#include "frontend/onnx/lower/layout.h"
#include <string.h>

// The k greatest or least along a dimension that is last: values, or their indices.
static bd_status emit_topk(bd_onnx_lowering *l, bd_id x, int64_t k, bool largest, bd_id *out_values,
                           bd_id *out_indices) {
  bd_attr attrs[] = {bd_attr_int(l->ctx, "k", k), bd_attr_int(l->ctx, "largest", largest)};
  BD_TRY(bd_onnx_emit(l, BD_OP_TOPK, 1, &x, 2, attrs, out_values));
  *out_indices = *out_values + 1; // results are numbered one after another
  return BD_OK;
}

static bd_status turn_round(bd_onnx_lowering *l, int dim, int64_t extent, bd_id *x) {
  bd_attr attrs[] = {bd_attr_int(l->ctx, "dim", dim), bd_attr_int(l->ctx, "start", extent - 1),
                     bd_attr_int(l->ctx, "size", extent), bd_attr_int(l->ctx, "step", -1)};
  return extent < 2 ? BD_OK : bd_onnx_emit(l, BD_OP_SLICE, 1, x, 4, attrs, x);
}

// The last of equal extremes is the first from the end.
static bd_status lower_arg(bd_onnx_lowering *l, const bd_onnx_step *step) {
  const bd_onnx_fact *in = step->in[0];
  bool largest = strcmp(step->node->op, "ArgMax") == 0;
  bool last = bd_onnx_int(step, "select_last_index", 0) != 0;
  int axis, dim;
  bd_onnx_part x;
  bd_id values, indices;
  BD_TRY(bd_onnx_axis(step, bd_onnx_int(step, "axis", 0), in->rank, &axis));
  BD_TRY(bd_onnx_operand(l, step, 0, &x));
  BD_TRY(bd_onnx_one_dim(l, step, step->in[0]->rank, axis, step->in[0]->dims[axis], &x, &dim));
  bd_type type = *bd_onnx_type(l, x.id);
  int64_t extent = type.dims[dim];
  BD_TRY(bd_onnx_turn(l, dim, false, x.id, &x.id));
  if (last) BD_TRY(turn_round(l, type.rank - 1, extent, &x.id));
  BD_TRY(emit_topk(l, x.id, 1, largest, &values, &indices));
  if (last) {
    bd_id end;
    BD_TRY(bd_onnx_number_op(l, BD_I64, (double)(extent - 1), &end));
    BD_TRY(bd_onnx_emit2(l, BD_OP_SUB, end, indices, &indices));
  }
  BD_TRY(bd_onnx_turn(l, dim, true, indices, &x.id));
  BD_TRY(bd_onnx_regroup(l, step, step->out[0].rank, step->out[0].dims, &x));
  bd_onnx_made(l, step, 0, x);
  return BD_OK;
}

static bd_status lower_top_k(bd_onnx_lowering *l, const bd_onnx_step *step) {
  const bd_onnx_fact *in = step->in[0];
  int axis, dim;
  bd_onnx_part x, parts[2];
  bd_id both[2];
  BD_TRY(bd_onnx_axis(step, bd_onnx_int(step, "axis", -1), in->rank, &axis));
  int64_t k = step->out[0].dims[axis].integer;
  BD_TRY(bd_onnx_operand(l, step, 0, &x));
  BD_TRY(bd_onnx_one_dim(l, step, step->in[0]->rank, axis, step->in[0]->dims[axis], &x, &dim));
  BD_TRY(bd_onnx_turn(l, dim, false, x.id, &x.id));
  BD_TRY(emit_topk(l, x.id, k, bd_onnx_int(step, "largest", 1) != 0, &both[0], &both[1]));
  for (int i = 0; i < 2; i++) {
    parts[i] = x;
    BD_TRY(bd_onnx_turn(l, dim, true, both[i], &parts[i].id));
    BD_TRY(bd_onnx_regroup(l, step, in->rank, step->out[0].dims, &parts[i]));
    bd_onnx_made(l, step, i, parts[i]);
  }
  return BD_OK;
}

static bd_status lower_cumsum(bd_onnx_lowering *l, const bd_onnx_step *step) {
  bd_onnx_part x;
  bd_onnx_number given;
  bool same = false;
  int axis, dim;
  BD_TRY(bd_onnx_same_number(l, step, 1, &same, &given));
  if (!same) return bd_onnx_step_fail(step, BD_UNSUPPORTED, "does not know its axis beforehand");
  BD_TRY(bd_onnx_axis(step, given.integer, step->in[0]->rank, &axis));
  BD_TRY(bd_onnx_operand(l, step, 0, &x));
  BD_TRY(bd_onnx_one_dim(l, step, step->in[0]->rank, axis, step->in[0]->dims[axis], &x, &dim));
  bd_attr attrs[] = {bd_attr_int(l->ctx, "dim", dim),
                     bd_attr_int(l->ctx, "exclusive", bd_onnx_int(step, "exclusive", 0) != 0),
                     bd_attr_int(l->ctx, "reverse", bd_onnx_int(step, "reverse", 0) != 0)};
  BD_TRY(bd_onnx_emit(l, BD_OP_CUMSUM, 1, &x.id, 3, attrs, &x.id));
  BD_TRY(bd_onnx_regroup(l, step, step->out[0].rank, step->out[0].dims, &x));
  bd_onnx_made(l, step, 0, x);
  return BD_OK;
}

static const bd_onnx_lower_rule rules[] = {
    {"ArgMax", lower_arg, BD_OP_TOPK},
    {"ArgMin", lower_arg, BD_OP_TOPK},
    {"CumSum", lower_cumsum, BD_OP_CUMSUM},
    {"TopK", lower_top_k, BD_OP_TOPK},
};
const bd_onnx_lower_rules bd_onnx_lower_extremes = {sizeof rules / sizeof *rules, rules};
