// Comparison and logic, and what is chosen by them: select, min and max.
#include "ir/ops/pointwise.h"
#include <math.h>

BD_BINARY_EVAL(lt, a < b)
BD_BINARY_EVAL(le, a <= b)
BD_BINARY_EVAL(eq, a == b)
BD_BINARY_EVAL(and, a != 0 && b != 0)
BD_BINARY_EVAL(or, a != 0 || b != 0)
BD_BINARY_EVAL(xor, (a != 0) != (b != 0))
BD_UNARY_EVAL(not, x == 0)
// What is no number wins.
BD_BINARY_EVAL(min, a < b || isnan(a) ? a : b)
BD_BINARY_EVAL(max, a > b || isnan(a) ? a : b)

BD_EVAL(select) {
  BD_IGNORE(op, key, scratch);
  int64_t count = bd_tensor_elements(out), elements[3];
  for (int k = 0; k < 3; k++)
    elements[k] = bd_tensor_elements(&in[k]);
  for (int64_t i = 0; i < count; i++) {
    int k = in[0].data[i % elements[0]] != 0 ? 1 : 2;
    out->data[i] = in[k].data[i % elements[k]];
  }
}

// The gradient goes where `where` is true to one operand, and elsewhere to the other.
static bd_status choose(bd_ctx *ctx, bd_gradient *g, bd_id where, int yes, int no) {
  const int operand[2] = {yes, no};
  for (int k = 0; k < 2; k++) {
    if (!g->need[operand[k]]) continue;
    bd_id part;
    BD_TRY(bd_gradient_where(ctx, g, where, g->dout[0], k == 1, &part));
    BD_TRY(bd_gradient_sum_to_operand(ctx, g, operand[k], part, &g->din[operand[k]]));
  }
  return BD_OK;
}

BD_GRADIENT(select) {
  return choose(ctx, g, bd_gradient_operand(g, 0), 1, 2);
}

// Of equal operands the first gets the gradient.
BD_GRADIENT(min) {
  bd_id where;
  BD_TRY(bd_gradient_binary(ctx, g, BD_OP_LE, bd_gradient_operand(g, 0), bd_gradient_operand(g, 1),
                            &where));
  return choose(ctx, g, where, 0, 1);
}

BD_GRADIENT(max) {
  bd_id where;
  BD_TRY(bd_gradient_binary(ctx, g, BD_OP_LE, bd_gradient_operand(g, 1), bd_gradient_operand(g, 0),
                            &where));
  return choose(ctx, g, where, 0, 1);
}
