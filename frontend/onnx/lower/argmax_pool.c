// The greatest element of each window together with its place in the operand.
#include "frontend/onnx/lower/windows.h"

// The number of each element of an image in row-major order; with `columns`, in column-major order
// within each channel.
static bd_status emit_places(bd_onnx_lowering *l, const bd_type *type, bool columns, bd_id *out) {
  int64_t count = bd_type_elements(type, 1), dims[BD_MAX_RANK];
  char from[BD_MAX_RANK + 1] = {0}, to[BD_MAX_RANK + 1] = {0};
  for (int d = 0; d < type->rank; d++) {
    int turned = columns && d >= 2 ? type->rank + 1 - d : d;
    dims[d] = type->dims[turned];
    from[d] = (char)('a' + d);
    to[d] = (char)('a' + turned);
  }
  bd_attr attrs[] = {bd_attr_string(l->ctx, "dtype", "i64"),
                     bd_attr_ints(l->ctx, "dims", 1, &count), bd_attr_int(l->ctx, "dim", 0)};
  BD_TRY(bd_onnx_emit(l, BD_OP_IOTA, 0, NULL, 3, attrs, out));
  BD_TRY(bd_onnx_emit_reshape(l, *out, type->rank, dims, out));
  if (!columns || type->rank < 4) return BD_OK;
  const char *rule = bd_intern_f(l->ctx, "%s->%s", from, to);
  return bd_onnx_emit_rule(l, BD_OP_PERMUTE, 1, out, rule, out);
}

// The windows of x with their elements last.
static bd_status lay_out(bd_onnx_lowering *l, const bd_onnx_window *window, double outside, bd_id x,
                         bd_id *out) {
  BD_TRY(bd_onnx_unfold(l, window, outside, x, out));
  return bd_onnx_turn(l, 2, false, *out, out);
}

bd_status bd_onnx_argmax_pool(bd_onnx_lowering *l, const bd_onnx_step *step,
                              const bd_onnx_window *window, double lowest) {
  bd_onnx_part out;
  bd_id x, places, best;
  BD_TRY(bd_onnx_exact(l, step, 0, &x));
  bd_type type = *bd_onnx_type(l, x);
  if (bd_type_has_batch(&type))
    return bd_onnx_step_fail(step, BD_UNSUPPORTED,
                             "gives out where its maxima are, counted over all samples");
  BD_TRY(emit_places(l, &type, bd_onnx_int(step, "storage_order", 0) != 0, &places));
  BD_TRY(lay_out(l, window, lowest, x, &x));
  BD_TRY(lay_out(l, window, 0, places, &places));
  bd_attr k = bd_attr_int(l->ctx, "k", 1);
  BD_TRY(bd_onnx_emit(l, BD_OP_TOPK, 1, &x, 1, &k, &best));
  int last = type.rank;
  bd_attr attrs[] = {bd_attr_int(l->ctx, "dim", last), bd_attr_int(l->ctx, "batch", last)};
  // The places of the maxima within their windows are topk's second result.
  BD_TRY(bd_onnx_emit(l, BD_OP_GATHER, 2, (bd_id[]){places, best + 1}, 2, attrs, &places));
  bd_type made = *bd_onnx_type(l, best);
  BD_TRY(bd_onnx_emit_reshape(l, best, last, made.dims, &best));
  BD_TRY(bd_onnx_emit_reshape(l, places, last, made.dims, &places));
  BD_TRY(bd_onnx_from_exact(l, step, best, &out));
  bd_onnx_made(l, step, 0, out);
  BD_TRY(bd_onnx_from_exact(l, step, places, &out));
  bd_onnx_made(l, step, 1, out);
  return BD_OK;
}
