// lse and xent: the cross-entropy of logits against integer targets, summed over valid targets.
#include "ir/ops/ops.h"
#include <math.h>

BD_EVAL(lse) {
  BD_IGNORE(op, key, scratch);
  int64_t v = bd_tensor_last(&in[0]), rows = bd_tensor_elements(&in[0]) / v;
  for (int64_t r = 0; r < rows; r++) {
    const double *x = in[0].data + r * v;
    double top = x[0], sum = 0;
    for (int64_t i = 1; i < v; i++)
      if (x[i] > top) top = x[i];
    for (int64_t i = 0; i < v; i++)
      sum += exp(x[i] - top);
    out->data[r] = isinf(top) && top < 0 ? top : top + log(sum);
  }
}

BD_EVAL(xent) {
  BD_IGNORE(op, key, scratch);
  int64_t v = bd_tensor_last(&in[0]), rows = bd_tensor_elements(&in[0]) / v;
  for (int64_t r = 0; r < rows; r++) {
    int64_t target = (int64_t)in[1].data[r];
    if (target < 0) continue;
    out->data[0] += in[2].data[r] - (target < v ? in[0].data[r * v + target] : 0);
  }
}

BD_EVAL(xent_grad) {
  BD_IGNORE(op, key, scratch);
  int64_t v = bd_tensor_last(&in[0]), rows = bd_tensor_elements(&in[0]) / v;
  for (int64_t r = 0; r < rows; r++) {
    int64_t target = (int64_t)in[1].data[r];
    if (target < 0) continue;
    for (int64_t i = 0; i < v; i++) {
      double probability = exp(in[0].data[r * v + i] - in[2].data[r]);
      out->data[r * v + i] = (probability - (i == target)) * in[3].data[0];
    }
  }
}

// A number per row of the operand, for each of the row's elements.
static bd_status over_rows(bd_ctx *ctx, bd_gradient *g, bd_id value, bd_id *out) {
  const char *letters = "ABCDEFGH";
  const bd_type *type = bd_gradient_operand_type(g, 0);
  const char *rule = bd_intern_f(ctx, "%.*s->%.*s", type->rank - 1, letters, type->rank, letters);
  const bd_attr attrs[2] = {bd_attr_string(ctx, "rule", rule),
                            bd_attr_ints(ctx, "dims", type->rank, type->dims)};
  return bd_build(ctx, g->backward, BD_OP_BROADCAST, 1, &value, 2, attrs, g->op->loc, out);
}

// exp(x - lse) dlse, in the type of the lse: a half's is f32.
BD_GRADIENT(lse) {
  bd_dtype dtype = g->forward->values[g->op->out[0]].type.dtype;
  bd_id x = bd_gradient_operand(g, 0), lse, less, share, parts, part;
  bd_attr to = bd_attr_string(ctx, "dtype", bd_dtype_name(dtype));
  if (bd_gradient_operand_type(g, 0)->dtype != dtype)
    BD_TRY(bd_build(ctx, g->backward, BD_OP_CAST, 1, &x, 1, &to, g->op->loc, &x));
  BD_TRY(over_rows(ctx, g, bd_gradient_result(g, 0), &lse));
  BD_TRY(bd_gradient_binary(ctx, g, BD_OP_SUB, x, lse, &less));
  BD_TRY(bd_gradient_unary(ctx, g, BD_OP_EXP, less, &share));
  BD_TRY(over_rows(ctx, g, g->dout[0], &parts));
  BD_TRY(bd_gradient_binary(ctx, g, BD_OP_MUL, share, parts, &part));
  return bd_gradient_as_operand(ctx, g, 0, part, &g->din[0]);
}

// Operand 2 must be lse(logits): the gradient with respect to the logits counts their way through
// it, and the lse itself gets none here.
BD_GRADIENT(xent) {
  const bd_id in[4] = {bd_gradient_operand(g, 0), bd_gradient_operand(g, 1),
                       bd_gradient_operand(g, 2), g->dout[0]};
  if (!g->need[0]) return BD_OK;
  return bd_build(ctx, g->backward, BD_OP_XENT_GRAD, 4, in, 0, NULL, g->op->loc, &g->din[0]);
}
