// Ops that are indices compared: triangles, unit matrices, one-hot vectors.
#include "frontend/onnx/lower/layout.h"

// The index along dimension `dim` of a plain shape.
static bd_status emit_iota(bd_onnx_lowering *l, int rank, const int64_t *dims, int dim,
                           bd_id *out) {
  bd_attr attrs[] = {bd_attr_string(l->ctx, "dtype", "i64"),
                     bd_attr_ints(l->ctx, "dims", rank, dims), bd_attr_int(l->ctx, "dim", dim)};
  return bd_onnx_emit(l, BD_OP_IOTA, 0, NULL, 3, attrs, out);
}

// How far each element of a matrix is right of the diagonal, less k.
static bd_status emit_distance(bd_onnx_lowering *l, const int64_t dims[2], int64_t k, bd_id *out) {
  bd_id row, column, shift;
  BD_TRY(emit_iota(l, 2, dims, 0, &row));
  BD_TRY(emit_iota(l, 2, dims, 1, &column));
  BD_TRY(bd_onnx_emit2(l, BD_OP_SUB, column, row, out));
  BD_TRY(bd_onnx_number_op(l, BD_I64, (double)k, &shift));
  return bd_onnx_emit2(l, BD_OP_SUB, *out, shift, out);
}

// Both last dimensions of a matrix, one of the graph each, also of extent 1.
static bd_status as_matrix(bd_onnx_lowering *l, const bd_onnx_step *step, int64_t dims[2],
                           bd_onnx_part *part) {
  const bd_onnx_fact *in = step->in[0];
  bd_onnx_factors factors[BD_MAX_RANK] = {{0}};
  for (int d = 0; d < in->rank; d++) {
    factors[d] = bd_onnx_factors_of(l, part, d);
    if (d < in->rank - 2) continue;
    if (in->dims[d].batch)
      return bd_onnx_step_fail(step, BD_UNSUPPORTED, "takes the batch as a dimension of a matrix");
    dims[d - (in->rank - 2)] = in->dims[d].integer;
    factors[d] = (bd_onnx_factors){1, {in->dims[d].integer}};
  }
  return bd_onnx_refit(l, step, in->rank, factors, part);
}

static bd_status lower_trilu(bd_onnx_lowering *l, const bd_onnx_step *step) {
  bool upper = bd_onnx_int(step, "upper", 1) != 0, same = true;
  bd_onnx_number k = {.integer = 0};
  int64_t dims[2];
  bd_onnx_part x;
  bd_id distance, zero, keep;
  if (step->in[1]) BD_TRY(bd_onnx_same_number(l, step, 1, &same, &k));
  if (!same) return bd_onnx_step_fail(step, BD_UNSUPPORTED, "does not know its k beforehand");
  BD_TRY(bd_onnx_operand(l, step, 0, &x));
  BD_TRY(as_matrix(l, step, dims, &x));
  // No matrix has a diagonal that far: the number stays exact as a real.
  int64_t far = (int64_t)1 << 48;
  int64_t shift = k.integer > far ? far : k.integer < -far ? -far : k.integer;
  BD_TRY(emit_distance(l, dims, shift, &distance));
  BD_TRY(bd_onnx_number_op(l, BD_I64, 0, &zero));
  BD_TRY(upper ? bd_onnx_emit2(l, BD_OP_LE, zero, distance, &keep)
               : bd_onnx_emit2(l, BD_OP_LE, distance, zero, &keep));
  BD_TRY(bd_onnx_number_op(l, bd_onnx_type(l, x.id)->dtype, 0, &zero));
  BD_TRY(bd_onnx_emit(l, BD_OP_SELECT, 3, (bd_id[]){keep, x.id, zero}, 0, NULL, &x.id));
  BD_TRY(bd_onnx_regroup(l, step, step->out[0].rank, step->out[0].dims, &x));
  bd_onnx_made(l, step, 0, x);
  return BD_OK;
}

static bd_status lower_eye(bd_onnx_lowering *l, const bd_onnx_step *step) {
  bd_onnx_part x = {.first = {0, 1, 2}};
  bd_dtype dtype;
  bd_id distance, zero;
  const bd_onnx_number *dims = step->out[0].dims;
  if (dims[0].batch || dims[1].batch || !bd_onnx_element_type(step->out[0].dtype, &dtype))
    return bd_onnx_step_fail(step, BD_UNSUPPORTED, "makes a unit matrix of the batch");
  int64_t extents[] = {dims[0].integer, dims[1].integer}, k = bd_onnx_int(step, "k", 0);
  if (k < -BD_MAX_ELEMENTS || k > BD_MAX_ELEMENTS)
    return bd_onnx_step_fail(step, BD_UNSUPPORTED, "has its diagonal outside of the matrix");
  BD_TRY(emit_distance(l, extents, k, &distance));
  BD_TRY(bd_onnx_number_op(l, BD_I64, 0, &zero));
  BD_TRY(bd_onnx_emit2(l, BD_OP_EQ, distance, zero, &x.id));
  BD_TRY(bd_onnx_emit_cast(l, x.id, dtype, &x.id));
  BD_TRY(bd_onnx_regroup(l, step, 2, dims, &x));
  bd_onnx_made(l, step, 0, x);
  return BD_OK;
}

// Indices, of which those below 0 count from the end, against the place along a new dimension.
static bd_status lower_one_hot(bd_onnx_lowering *l, const bd_onnx_step *step) {
  const bd_onnx_fact *in = step->in[0];
  int axis, at = 0;
  bd_onnx_part ids, spread = {0}, out;
  bd_id place, off_on[2];
  BD_TRY(bd_onnx_axis(step, bd_onnx_int(step, "axis", -1), in->rank + 1, &axis));
  int64_t depth = step->out[0].dims[axis].integer;
  BD_TRY(bd_onnx_operand(l, step, 0, &ids));
  BD_TRY(bd_onnx_emit_cast(l, ids.id, BD_I64, &ids.id));
  bd_id count, zero, below, moved;
  BD_TRY(bd_onnx_number_op(l, BD_I64, (double)depth, &count));
  BD_TRY(bd_onnx_number_op(l, BD_I64, 0, &zero));
  BD_TRY(bd_onnx_emit2(l, BD_OP_LT, ids.id, zero, &below));
  BD_TRY(bd_onnx_emit2(l, BD_OP_ADD, ids.id, count, &moved));
  BD_TRY(bd_onnx_emit(l, BD_OP_SELECT, 3, (bd_id[]){below, moved, ids.id}, 0, NULL, &ids.id));
  // The indices with a dimension of extent 1 at the axis, and the places as a list along it.
  for (int d = 0; d <= in->rank + 1; d++)
    spread.first[d] = ids.first[d <= axis ? d : d - 1];
  spread.id = ids.id;
  BD_TRY(emit_iota(l, 1, &depth, 0, &place));
  bd_onnx_part places = {.id = place};
  for (int d = 0; d <= in->rank + 1 - axis; d++)
    places.first[at++] = d == 0 ? 0 : 1;
  bd_onnx_part pair[] = {spread, places};
  int ranks[] = {in->rank + 1, in->rank + 1 - axis};
  BD_TRY(bd_onnx_align(l, step, 2, ranks, pair, in->rank + 1, &out));
  BD_TRY(bd_onnx_emit2(l, BD_OP_EQ, pair[0].id, pair[1].id, &out.id));
  bd_onnx_part values;
  BD_TRY(bd_onnx_operand(l, step, 2, &values));
  for (int i = 0; i < 2; i++) {
    BD_TRY(bd_onnx_emit_slice(l, values.id, 0, i, 1, &off_on[i]));
    BD_TRY(bd_onnx_emit_reshape(l, off_on[i], 0, &depth, &off_on[i]));
  }
  BD_TRY(
      bd_onnx_emit(l, BD_OP_SELECT, 3, (bd_id[]){out.id, off_on[1], off_on[0]}, 0, NULL, &out.id));
  BD_TRY(bd_onnx_regroup(l, step, step->out[0].rank, step->out[0].dims, &out));
  bd_onnx_made(l, step, 0, out);
  return BD_OK;
}

static const bd_onnx_lower_rule rules[] = {
    {"EyeLike", lower_eye, BD_OP_IOTA},
    {"OneHot", lower_one_hot, BD_OP_IOTA},
    {"Trilu", lower_trilu, BD_OP_IOTA},
};
const bd_onnx_lower_rules bd_onnx_lower_masks = {sizeof rules / sizeof *rules, rules};
