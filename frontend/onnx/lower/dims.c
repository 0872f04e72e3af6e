// Single dimensions of the graph: one for a dimension of the model, a part of one, one in another
// place.
#include "frontend/onnx/lower/layout.h"

bd_status bd_onnx_one_dim(bd_onnx_lowering *l, const bd_onnx_step *step, int rank, int axis,
                          bd_onnx_number extent, bd_onnx_part *part, int *out_dim) {
  bd_onnx_factors factors[BD_MAX_RANK] = {{0}};
  if (extent.batch)
    return bd_onnx_step_fail(step, BD_UNSUPPORTED, "runs along the batch; samples must be apart");
  for (int d = 0; d < rank; d++)
    factors[d] = bd_onnx_factors_of(l, part, d);
  factors[axis] = (bd_onnx_factors){1, {extent.integer}};
  BD_TRY(bd_onnx_refit(l, step, rank, factors, part));
  *out_dim = part->first[axis];
  return BD_OK;
}

bd_status bd_onnx_cut(bd_onnx_lowering *l, const bd_onnx_step *step, int rank, int axis,
                      int64_t start, int64_t by, int64_t size, bd_onnx_part *part) {
  bd_onnx_factors factors[BD_MAX_RANK] = {{0}}, whole = bd_onnx_factors_of(l, part, axis);
  if (whole.count == 0) return BD_OK; // one element, which is taken
  BD_TRY(bd_onnx_join(l, step, rank, 1U << axis, part));
  int dim = part->first[axis];
  if (start == 0 && by == 1 && bd_onnx_type(l, part->id)->dims[dim] == size) return BD_OK;
  bd_attr attrs[] = {bd_attr_int(l->ctx, "dim", dim), bd_attr_int(l->ctx, "start", start),
                     bd_attr_int(l->ctx, "size", size), bd_attr_int(l->ctx, "step", by)};
  bool steps = by != 1 && size > 1;
  BD_TRY(bd_onnx_emit(l, BD_OP_SLICE, 1, &part->id, steps ? 4 : 3, attrs, &part->id));
  if (size > 1) return BD_OK;
  for (int d = 0; d < rank; d++)
    factors[d] = bd_onnx_factors_of(l, part, d);
  factors[axis].count = 0;
  return bd_onnx_refit(l, step, rank, factors, part);
}

bd_status bd_onnx_turn(bd_onnx_lowering *l, int from, bool back, bd_id x, bd_id *out) {
  char a[BD_MAX_RANK + 1] = {0}, b[BD_MAX_RANK + 1] = {0};
  int at = 0, rank = bd_onnx_type(l, x)->rank;
  *out = x;
  if (from == rank - 1) return BD_OK;
  for (int d = 0; d < rank; d++) {
    a[d] = (char)('a' + d);
    if (d != from) b[at++] = a[d];
  }
  b[at] = a[from];
  const char *rule =
      back ? bd_intern_f(l->ctx, "%s->%s", b, a) : bd_intern_f(l->ctx, "%s->%s", a, b);
  return bd_onnx_emit_rule(l, BD_OP_PERMUTE, 1, &x, rule, out);
}
