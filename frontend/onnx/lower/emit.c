#include "frontend/onnx/lower/lowering.h"
#include <string.h>

bd_status bd_onnx_emit(bd_onnx_lowering *l, bd_op_kind kind, int in_count, const bd_id *in,
                       int attr_count, const bd_attr *attrs, bd_id *out) {
  bd_id made[BD_MAX_RESULTS];
  BD_TRY(bd_build(l->ctx, l->graph.function, kind, in_count, in, attr_count, attrs, l->graph.loc,
                  made));
  *out = made[0];
  return BD_OK;
}

bd_status bd_onnx_emit1(bd_onnx_lowering *l, bd_op_kind kind, bd_id x, bd_id *out) {
  return bd_onnx_emit(l, kind, 1, &x, 0, NULL, out);
}

bd_status bd_onnx_emit2(bd_onnx_lowering *l, bd_op_kind kind, bd_id x, bd_id y, bd_id *out) {
  return bd_onnx_emit(l, kind, 2, (bd_id[]){x, y}, 0, NULL, out);
}

bd_status bd_onnx_emit_real(bd_onnx_lowering *l, bd_op_kind kind, bd_id x, double value,
                            bd_id *out) {
  bd_attr attr = bd_attr_real(l->ctx, "value", value);
  return bd_onnx_emit(l, kind, 1, &x, 1, &attr, out);
}

bd_status bd_onnx_emit_rule(bd_onnx_lowering *l, bd_op_kind kind, int in_count, const bd_id *in,
                            const char *rule, bd_id *out) {
  bd_attr attr = bd_attr_string(l->ctx, "rule", rule);
  return bd_onnx_emit(l, kind, in_count, in, 1, &attr, out);
}

bd_status bd_onnx_emit_reshape(bd_onnx_lowering *l, bd_id x, int rank, const int64_t *dims,
                               bd_id *out) {
  const bd_type *type = bd_onnx_type(l, x);
  *out = x;
  if (type->rank == rank && memcmp(type->dims, dims, (size_t)rank * sizeof *dims) == 0)
    return BD_OK;
  bd_attr attr = bd_attr_ints(l->ctx, "dims", rank, dims);
  return bd_onnx_emit(l, BD_OP_RESHAPE, 1, &x, 1, &attr, out);
}

bd_status bd_onnx_emit_cast(bd_onnx_lowering *l, bd_id x, bd_dtype dtype, bd_id *out) {
  *out = x;
  if (bd_onnx_type(l, x)->dtype == dtype) return BD_OK;
  bd_attr attr = bd_attr_string(l->ctx, "dtype", bd_dtype_name(dtype));
  return bd_onnx_emit(l, BD_OP_CAST, 1, &x, 1, &attr, out);
}

bd_status bd_onnx_emit_slice(bd_onnx_lowering *l, bd_id x, int dim, int64_t start, int64_t size,
                             bd_id *out) {
  *out = x;
  if (start == 0 && bd_onnx_type(l, x)->dims[dim] == size) return BD_OK;
  bd_attr attrs[] = {bd_attr_int(l->ctx, "dim", dim), bd_attr_int(l->ctx, "start", start),
                     bd_attr_int(l->ctx, "size", size)};
  return bd_onnx_emit(l, BD_OP_SLICE, 1, &x, 3, attrs, out);
}

bd_status bd_onnx_number_op(bd_onnx_lowering *l, bd_dtype dtype, double value, bd_id *out) {
  bd_attr attrs[] = {bd_attr_string(l->ctx, "dtype", bd_dtype_name(dtype)),
                     bd_attr_ints(l->ctx, "dims", 0, NULL), bd_attr_real(l->ctx, "value", value)};
  return bd_onnx_emit(l, BD_OP_CONSTANT, 0, NULL, 3, attrs, out);
}

bool bd_onnx_element_type(bd_onnx_dtype dtype, bd_dtype *out) {
  static const struct {
    bd_onnx_dtype from;
    bd_dtype to;
  } types[] = {{BD_ONNX_FLOAT, BD_F32},    {BD_ONNX_UINT8, BD_U8},   {BD_ONNX_INT8, BD_I8},
               {BD_ONNX_UINT16, BD_U16},   {BD_ONNX_INT16, BD_I16},  {BD_ONNX_INT32, BD_I32},
               {BD_ONNX_INT64, BD_I64},    {BD_ONNX_BOOL, BD_BOOL},  {BD_ONNX_FLOAT16, BD_F16},
               {BD_ONNX_DOUBLE, BD_F64},   {BD_ONNX_UINT32, BD_U32}, {BD_ONNX_UINT64, BD_U64},
               {BD_ONNX_BFLOAT16, BD_BF16}};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    *out = types[i].to;
    if (types[i].from == dtype) return true;
  }
  return false;
}
