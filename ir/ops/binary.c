// add, sub, mul, div, track. The operand of lower rank repeats over the leading dimensions of the
// other.
#include "ir/ops/pointwise.h"

static uint64_t add_whole(const bd_op *op, bd_dtype dtype, uint64_t x, uint64_t y) {
  (void)op, (void)dtype;
  return x + y;
}
static uint64_t sub_whole(const bd_op *op, bd_dtype dtype, uint64_t x, uint64_t y) {
  (void)op, (void)dtype;
  return x - y;
}
static uint64_t mul_whole(const bd_op *op, bd_dtype dtype, uint64_t x, uint64_t y) {
  (void)op, (void)dtype;
  return x * y;
}
// Towards zero; by zero: 0.
static uint64_t div_whole(const bd_op *op, bd_dtype dtype, uint64_t x, uint64_t y) {
  (void)op;
  if (y == 0) return 0;
  if (bd_dtype_is_unsigned(dtype)) return x / y;
  return y == UINT64_MAX ? 0 - x : (uint64_t)((int64_t)x / (int64_t)y);
}

BD_NUMBER_EVAL(BD_BINARY_EVAL, add, a + b, add_whole)
BD_NUMBER_EVAL(BD_BINARY_EVAL, sub, a - b, sub_whole)
BD_NUMBER_EVAL(BD_BINARY_EVAL, mul, a *b, mul_whole)
BD_NUMBER_EVAL(BD_BINARY_EVAL, div, a / b, div_whole)

BD_BINARY_EVAL(track, ((void)a, b))

BD_GRADIENT(add) {
  for (int i = 0; i < 2; i++)
    if (g->need[i]) BD_TRY(bd_gradient_sum_to_operand(ctx, g, i, g->dout[0], &g->din[i]));
  return BD_OK;
}

BD_GRADIENT(sub) {
  if (g->need[0]) BD_TRY(bd_gradient_sum_to_operand(ctx, g, 0, g->dout[0], &g->din[0]));
  if (g->need[1]) {
    bd_id negated;
    BD_TRY(bd_gradient_unary(ctx, g, BD_OP_NEG, g->dout[0], &negated));
    BD_TRY(bd_gradient_sum_to_operand(ctx, g, 1, negated, &g->din[1]));
  }
  return BD_OK;
}

BD_GRADIENT(mul) {
  for (int i = 0; i < 2; i++) {
    if (!g->need[i]) continue;
    bd_id product;
    BD_TRY(
        bd_gradient_binary(ctx, g, BD_OP_MUL, g->dout[0], bd_gradient_operand(g, 1 - i), &product));
    BD_TRY(bd_gradient_sum_to_operand(ctx, g, i, product, &g->din[i]));
  }
  return BD_OK;
}

BD_GRADIENT(div) {
  bd_id quotient;
  BD_TRY(bd_gradient_binary(ctx, g, BD_OP_DIV, g->dout[0], bd_gradient_operand(g, 1), &quotient));
  if (g->need[0]) BD_TRY(bd_gradient_sum_to_operand(ctx, g, 0, quotient, &g->din[0]));
  if (g->need[1]) {
    bd_id product, negated;
    BD_TRY(bd_gradient_binary(ctx, g, BD_OP_MUL, quotient, bd_gradient_result(g, 0), &product));
    BD_TRY(bd_gradient_unary(ctx, g, BD_OP_NEG, product, &negated));
    BD_TRY(bd_gradient_sum_to_operand(ctx, g, 1, negated, &g->din[1]));
  }
  return BD_OK;
}

// What the average has too much: the step's end takes a share of it away.
BD_GRADIENT(track) {
  if (g->need[1]) BD_TRY(bd_gradient_sum_to_operand(ctx, g, 1, g->dout[0], &g->din[1]));
  if (!g->need[0]) return BD_OK;
  bd_id beyond;
  BD_TRY(bd_gradient_binary(ctx, g, BD_OP_SUB, bd_gradient_operand(g, 0), bd_gradient_operand(g, 1),
                            &beyond));
  return bd_gradient_sum_to_operand(ctx, g, 0, beyond, &g->din[0]);
}
