// What the files of the passes `precision` and `precision-f16` share. A value is *narrow* when it
// becomes a half.
#ifndef BD_IR_PASSES_PRECISION_H
#define BD_IR_PASSES_PRECISION_H
#include "ir/index.h"

// A function before and after the pass.
typedef struct bd_narrowed {
  const bd_function *from;
  bd_dtype dtype;      // of what is narrow
  bool *narrow_param;  // per parameter
  bool *narrow_result; // per result
  bd_function *to;     // made by bd_precision_rewrite
  bd_id *moved;        // per value of `from`: the one of `to`
  int *op_moved;       // per op of `from`: its index in `to`
} bd_narrowed;

// Which values of the function are narrow when the parameters in `narrow_param` are: results of ops
// with a narrow operand, statistics excepted. `out_narrow`: per value.
void bd_precision_propagate(const bd_function *function, const bool *narrow_param,
                            bool *out_narrow);

// Whether the op's result has the same values as a half of type `dtype`, whatever it is computed
// from: ones and zeros, constants that are such numbers, and what is chosen or repeated of these.
// It has no gradient. 0: no; else the ops from a constant or a bool to it. `exact`: that of its
// operands, per value.
int bd_precision_exactness(const bd_function *function, const bd_op *op, bd_dtype dtype,
                           const uint8_t *exact);

// Makes `narrowed->to` with the parameters and results that it asks for. `forward`: of a backward
// function, the pair's other half, rewritten already; else NULL.
BD_NODISCARD bd_status bd_precision_rewrite(bd_ctx *ctx, bd_narrowed *narrowed,
                                            const bd_narrowed *forward);
#endif
