// add, sub, mul, div. The operand of lower rank repeats over the leading dimensions of the other.
#include "ir/ops/ops.h"

#define BINARY_EVAL(spelling, expression)                                                          \
  BD_EVAL(spelling) {                                                                              \
    BD_IGNORE(op, key, scratch);                                                                   \
    int64_t count = bd_tensor_elements(out);                                                       \
    int64_t count0 = bd_tensor_elements(&in[0]), count1 = bd_tensor_elements(&in[1]);              \
    for (int64_t i = 0; i < count; i++) {                                                          \
      double a = in[0].data[i % count0], b = in[1].data[i % count1];                               \
      out->data[i] = (expression);                                                                 \
    }                                                                                              \
  }

BINARY_EVAL(add, a + b)
BINARY_EVAL(sub, a - b)
BINARY_EVAL(mul, a *b)
BINARY_EVAL(div, a / b)

// Sums `value`, of the result's shape, over the leading dimensions that operand i lacks. The rule's
// letters are those of the forward op's loops.
static bd_status sum_to_operand(bd_ctx *ctx, bd_gradient *g, int i, bd_id value, bd_id *out) {
  int rank = g->forward->values[g->op->out[0]].type.rank;
  int lacking = rank - bd_gradient_operand_type(g, i)->rank;
  if (lacking == 0) {
    *out = value;
    return BD_OK;
  }
  const char *letters = "ABCDEFGH";
  bd_attr rule = bd_attr_string(
      ctx, "rule",
      bd_intern_f(ctx, "%.*s->%.*s", rank, letters, rank - lacking, letters + lacking));
  return bd_build(ctx, g->backward, BD_OP_REDUCE_SUM, 1, &value, 1, &rule, g->op->loc, out);
}

BD_GRADIENT(add) {
  for (int i = 0; i < 2; i++)
    if (g->need[i]) BD_TRY(sum_to_operand(ctx, g, i, g->dout[0], &g->din[i]));
  return BD_OK;
}

BD_GRADIENT(sub) {
  if (g->need[0]) BD_TRY(sum_to_operand(ctx, g, 0, g->dout[0], &g->din[0]));
  if (g->need[1]) {
    bd_id negated;
    BD_TRY(bd_gradient_unary(ctx, g, BD_OP_NEG, g->dout[0], &negated));
    BD_TRY(sum_to_operand(ctx, g, 1, negated, &g->din[1]));
  }
  return BD_OK;
}

BD_GRADIENT(mul) {
  for (int i = 0; i < 2; i++) {
    if (!g->need[i]) continue;
    bd_id product;
    BD_TRY(
        bd_gradient_binary(ctx, g, BD_OP_MUL, g->dout[0], bd_gradient_operand(g, 1 - i), &product));
    BD_TRY(sum_to_operand(ctx, g, i, product, &g->din[i]));
  }
  return BD_OK;
}

BD_GRADIENT(div) {
  bd_id quotient;
  BD_TRY(bd_gradient_binary(ctx, g, BD_OP_DIV, g->dout[0], bd_gradient_operand(g, 1), &quotient));
  if (g->need[0]) BD_TRY(sum_to_operand(ctx, g, 0, quotient, &g->din[0]));
  if (g->need[1]) {
    bd_id product, negated;
    BD_TRY(bd_gradient_binary(ctx, g, BD_OP_MUL, quotient, bd_gradient_result(g, 0), &product));
    BD_TRY(bd_gradient_unary(ctx, g, BD_OP_NEG, product, &negated));
    BD_TRY(sum_to_operand(ctx, g, 1, negated, &g->din[1]));
  }
  return BD_OK;
}
