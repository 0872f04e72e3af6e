// Arithmetic of one operand whose gradient is made of other arithmetic.
#include "ir/ops/pointwise.h"
#include <math.h>

static uint64_t neg_whole(const bd_op *op, bd_dtype dtype, uint64_t x, uint64_t y) {
  (void)op, (void)dtype, (void)y;
  return 0 - x;
}

BD_NUMBER_EVAL(BD_UNARY_EVAL, neg, -x, neg_whole)
BD_UNARY_EVAL(exp, exp(x))
BD_UNARY_EVAL(log, log(x))
BD_UNARY_EVAL(sqrt, sqrt(x))
BD_UNARY_EVAL(sin, sin(x))
BD_UNARY_EVAL(cos, cos(x))
BD_UNARY_EVAL(erf, erf(x))
BD_UNARY_EVAL(tanh, tanh(x))
BD_UNARY_EVAL(sigmoid, 1 / (1 + exp(-x)))
BD_UNARY_EVAL(scale, x *bd_op_real(op, "value", 1))
BD_UNARY_EVAL(offset, x + bd_op_real(op, "value", 0))

BD_GRADIENT(neg) {
  return bd_gradient_unary(ctx, g, BD_OP_NEG, g->dout[0], &g->din[0]);
}

BD_GRADIENT(exp) {
  return bd_gradient_binary(ctx, g, BD_OP_MUL, g->dout[0], bd_gradient_result(g, 0), &g->din[0]);
}

BD_GRADIENT(log) {
  return bd_gradient_binary(ctx, g, BD_OP_DIV, g->dout[0], bd_gradient_operand(g, 0), &g->din[0]);
}

// d sqrt(x) = dy / (2 y)
BD_GRADIENT(sqrt) {
  bd_id quotient;
  BD_TRY(bd_gradient_binary(ctx, g, BD_OP_DIV, g->dout[0], bd_gradient_result(g, 0), &quotient));
  bd_attr half = bd_attr_real(ctx, "value", 0.5);
  return bd_build(ctx, g->backward, BD_OP_SCALE, 1, &quotient, 1, &half, g->op->loc, &g->din[0]);
}

BD_GRADIENT(sin) {
  bd_id slope;
  BD_TRY(bd_gradient_unary(ctx, g, BD_OP_COS, bd_gradient_operand(g, 0), &slope));
  return bd_gradient_binary(ctx, g, BD_OP_MUL, g->dout[0], slope, &g->din[0]);
}

BD_GRADIENT(cos) {
  bd_id slope, product;
  BD_TRY(bd_gradient_unary(ctx, g, BD_OP_SIN, bd_gradient_operand(g, 0), &slope));
  BD_TRY(bd_gradient_binary(ctx, g, BD_OP_MUL, g->dout[0], slope, &product));
  return bd_gradient_unary(ctx, g, BD_OP_NEG, product, &g->din[0]);
}

// d erf(x) = dy 2/sqrt(pi) exp(-x x)
BD_GRADIENT(erf) {
  bd_id x = bd_gradient_operand(g, 0), square, negated, bell, product;
  BD_TRY(bd_gradient_binary(ctx, g, BD_OP_MUL, x, x, &square));
  BD_TRY(bd_gradient_unary(ctx, g, BD_OP_NEG, square, &negated));
  BD_TRY(bd_gradient_unary(ctx, g, BD_OP_EXP, negated, &bell));
  BD_TRY(bd_gradient_binary(ctx, g, BD_OP_MUL, g->dout[0], bell, &product));
  bd_attr factor = bd_attr_real(ctx, "value", M_2_SQRTPI);
  return bd_build(ctx, g->backward, BD_OP_SCALE, 1, &product, 1, &factor, g->op->loc, &g->din[0]);
}

// d tanh(x) = dy - dy y y
BD_GRADIENT(tanh) {
  bd_id y = bd_gradient_result(g, 0), once, twice;
  BD_TRY(bd_gradient_binary(ctx, g, BD_OP_MUL, g->dout[0], y, &once));
  BD_TRY(bd_gradient_binary(ctx, g, BD_OP_MUL, once, y, &twice));
  return bd_gradient_binary(ctx, g, BD_OP_SUB, g->dout[0], twice, &g->din[0]);
}

// d sigmoid(x) = dy y - dy y y
BD_GRADIENT(sigmoid) {
  bd_id y = bd_gradient_result(g, 0), once, twice;
  BD_TRY(bd_gradient_binary(ctx, g, BD_OP_MUL, g->dout[0], y, &once));
  BD_TRY(bd_gradient_binary(ctx, g, BD_OP_MUL, once, y, &twice));
  return bd_gradient_binary(ctx, g, BD_OP_SUB, once, twice, &g->din[0]);
}

BD_GRADIENT(scale) {
  return bd_gradient_like(ctx, g, BD_OP_SCALE, 1, &g->dout[0], 0, NULL, &g->din[0]);
}

BD_GRADIENT(offset) {
  (void)ctx;
  g->din[0] = g->dout[0];
  return BD_OK;
}
