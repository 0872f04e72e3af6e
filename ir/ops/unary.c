// Arithmetic of one operand whose gradient is made of other arithmetic.
#include "ir/ops/ops.h"
#include <math.h>

#define UNARY_EVAL(spelling, expression)                                                           \
  BD_EVAL(spelling) {                                                                              \
    BD_IGNORE(op, key, scratch);                                                                   \
    int64_t count = bd_tensor_elements(out);                                                       \
    for (int64_t i = 0; i < count; i++) {                                                          \
      double x = in[0].data[i];                                                                    \
      out->data[i] = (expression);                                                                 \
    }                                                                                              \
  }

UNARY_EVAL(neg, -x)
UNARY_EVAL(exp, exp(x))
UNARY_EVAL(log, log(x))
UNARY_EVAL(sqrt, sqrt(x))
UNARY_EVAL(tanh, tanh(x))
UNARY_EVAL(sigmoid, 1 / (1 + exp(-x)))
UNARY_EVAL(scale, x *bd_op_real(op, "value", 1))
UNARY_EVAL(offset, x + bd_op_real(op, "value", 0))

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
