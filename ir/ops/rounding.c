// abs and sign; floor, ceil and round (ties to even), whose slope is 0.
#include "ir/ops/pointwise.h"
#include <math.h>

static bool is_negative(bd_dtype dtype, uint64_t x) {
  return !bd_dtype_is_unsigned(dtype) && (int64_t)x < 0;
}

static uint64_t abs_whole(const bd_op *op, bd_dtype dtype, uint64_t x, uint64_t y) {
  (void)op, (void)y;
  return is_negative(dtype, x) ? 0 - x : x;
}

static uint64_t sign_whole(const bd_op *op, bd_dtype dtype, uint64_t x, uint64_t y) {
  (void)op, (void)y;
  return is_negative(dtype, x) ? UINT64_MAX : x != 0;
}

BD_NUMBER_EVAL(BD_UNARY_EVAL, abs, fabs(x), abs_whole)
BD_NUMBER_EVAL(BD_UNARY_EVAL, sign, x > 0 ? 1 : x < 0 ? -1 : x, sign_whole)
BD_UNARY_EVAL(floor, floor(x))
BD_UNARY_EVAL(ceil, ceil(x))
BD_UNARY_EVAL(round, nearbyint(x))

BD_GRADIENT(abs) {
  bd_id sign;
  BD_TRY(bd_gradient_unary(ctx, g, BD_OP_SIGN, bd_gradient_operand(g, 0), &sign));
  return bd_gradient_binary(ctx, g, BD_OP_MUL, g->dout[0], sign, &g->din[0]);
}
