#include "ir/passes/precision.h"
#include <math.h>

static bool is_half(const bd_op *op, bd_dtype dtype) {
  double value = bd_op_real(op, "value", 0);
  return isnan(value) || !islessgreater(bd_dtype_round(dtype, value), value);
}

bool bd_precision_is_exact(const bd_function *function, const bd_op *op, bd_dtype dtype) {
  if (function->values[op->out[0]].type.dtype != BD_F32) return false;
  if (op->kind == BD_OP_CAST) return function->values[op->in[0]].type.dtype == BD_BOOL;
  return op->kind == BD_OP_CONSTANT && bd_op_find_attr(op, "value") && is_half(op, dtype);
}
