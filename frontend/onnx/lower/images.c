// Convolutions and pools that the graph has ops for; signals of one dimension are images of one
// row.
#include "frontend/onnx/lower/windows.h"

bd_status bd_onnx_exact(bd_onnx_lowering *l, const bd_onnx_step *step, int i, bool rows,
                        bd_id *out) {
  const bd_onnx_fact *in = step->in[i];
  bd_onnx_part part;
  int64_t dims[BD_MAX_RANK + 1];
  int at = 0;
  BD_TRY(bd_onnx_operand(l, step, i, &part));
  for (int d = 0; d < in->rank; d++) {
    if (in->dims[d].batch && in->dims[d].integer != 1)
      return bd_onnx_step_fail(step, BD_UNSUPPORTED, "has a multiple of the batch as a dimension");
    if (rows && d == 2 && in->rank == 3) dims[at++] = 1;
    dims[at++] = in->dims[d].batch ? BD_DIM_BATCH : in->dims[d].integer;
  }
  return bd_onnx_emit_reshape(l, part.id, at, dims, out);
}

bd_status bd_onnx_from_exact(bd_onnx_lowering *l, const bd_onnx_step *step, bd_id made,
                             bd_onnx_part *out) {
  bd_onnx_factors factors[BD_MAX_RANK] = {{0}};
  for (int d = 0; d < step->out[0].rank; d++)
    factors[d] = bd_onnx_factors_plain(l, step->out[0].dims[d]);
  out->id = made;
  return bd_onnx_refit(l, step, step->out[0].rank, factors, out);
}

bool bd_onnx_is_native(const bd_onnx_step *step, const bd_onnx_window *window) {
  bool native = window->rank <= 2 && bd_onnx_int(step, "ceil_mode", 0) == 0;
  for (int d = 0; d < window->rank; d++)
    native = native && (window->dilation[d] == 1 || window->size[d] == 1) &&
             window->before[d] == window->after[d] && window->before[d] >= 0;
  return native;
}

// Strides and padding of rows and columns; signals have one row.
static int window_attrs(bd_onnx_lowering *l, const bd_onnx_window *window, bd_attr attrs[4]) {
  bool rows = window->rank == 2;
  int last = window->rank - 1;
  attrs[0] = bd_attr_int(l->ctx, "stride_h", rows ? window->stride[0] : 1);
  attrs[1] = bd_attr_int(l->ctx, "stride_w", window->stride[last]);
  attrs[2] = bd_attr_int(l->ctx, "pad_h", rows ? window->before[0] : 0);
  attrs[3] = bd_attr_int(l->ctx, "pad_w", window->before[last]);
  return 4;
}

bd_status bd_onnx_native_conv(bd_onnx_lowering *l, const bd_onnx_step *step,
                              const bd_onnx_window *window, bd_onnx_part *out) {
  bd_id in[2], image;
  bd_attr attrs[5];
  for (int i = 0; i < 2; i++)
    BD_TRY(bd_onnx_exact(l, step, i, true, &in[i]));
  int count = window_attrs(l, window, attrs);
  attrs[count++] = bd_attr_int(l->ctx, "groups", bd_onnx_int(step, "group", 1));
  BD_TRY(bd_onnx_emit(l, BD_OP_CONV2D, 2, in, count, attrs, &image));
  return bd_onnx_from_exact(l, step, image, out);
}

bd_status bd_onnx_native_pool(bd_onnx_lowering *l, const bd_onnx_step *step,
                              const bd_onnx_window *window, bd_onnx_part *out) {
  bd_id image;
  bd_attr attrs[6];
  BD_TRY(bd_onnx_exact(l, step, 0, true, &image));
  int count = window_attrs(l, window, attrs), last = window->rank - 1;
  attrs[count++] = bd_attr_int(l->ctx, "kh", window->rank == 2 ? window->size[0] : 1);
  attrs[count++] = bd_attr_int(l->ctx, "kw", window->size[last]);
  // Small integers are compared as reals, which have them all.
  bd_dtype dtype = bd_onnx_type(l, image)->dtype;
  if (!bd_dtype_is_float(dtype)) BD_TRY(bd_onnx_emit_cast(l, image, BD_F32, &image));
  BD_TRY(bd_onnx_emit(l, BD_OP_MAXPOOL2D, 1, &image, count, attrs, &image));
  BD_TRY(bd_onnx_emit_cast(l, image, dtype, &image));
  return bd_onnx_from_exact(l, step, image, out);
}
