#include "ir/passes/precision.h"
#include <math.h>

enum { MOST_DEEP = 4 }; // ops that make an exact value, which are made again in the other width

static bool is_half(const bd_op *op, bd_dtype dtype) {
  double value = bd_op_real(op, "value", 0);
  return isnan(value) || !islessgreater(bd_dtype_round(dtype, value), value);
}

// Of what is chosen or repeated, the deepest; 0: one is not exact.
static int deepest(const bd_function *function, const bd_op *op, const uint8_t *exact) {
  int most = 0;
  for (int k = 0; k < op->in_count; k++) {
    if (!bd_dtype_is_float(function->values[op->in[k]].type.dtype)) continue;
    if (!exact[op->in[k]]) return 0;
    if (exact[op->in[k]] > most) most = exact[op->in[k]];
  }
  return most;
}

int bd_precision_exactness(const bd_function *function, const bd_op *op, bd_dtype dtype,
                           const uint8_t *exact) {
  if (function->values[op->out[0]].type.dtype != BD_F32) return 0;
  if (op->kind == BD_OP_CAST) return function->values[op->in[0]].type.dtype == BD_BOOL;
  if (op->kind == BD_OP_CONSTANT) return bd_op_find_attr(op, "value") && is_half(op, dtype);
  if (op->kind != BD_OP_SELECT && op->kind != BD_OP_BROADCAST) return 0;
  int depth = deepest(function, op, exact);
  return depth > 0 && depth < MOST_DEEP ? depth + 1 : 0;
}
