// sink_attention(q, k, v, sinks): attention whose softmax has a number more to each row, the sink
// of its head, that no value goes with. With s the sink, out and lse of attention become out
// exp(lse - lse') and lse' = log(exp(lse) + exp(s)).
#include "ir/ops/ops.h"
#include <math.h>

BD_EVAL(sink_attention) {
  int64_t rows = bd_tensor_elements(&out[1]), width = bd_tensor_last(&out[0]);
  bd_eval_attention(op, in, out, key, scratch);
  for (int64_t row = 0; row < rows; row++) {
    double lse = out[1].data[row], sink = in[3].data[row % in[3].type.dims[0]];
    double top = fmax(lse, sink), all = top + log(exp(lse - top) + exp(sink - top));
    for (int64_t c = 0; c < width; c++)
      out[0].data[row * width + c] *= exp(lse - all);
    out[1].data[row] = all;
  }
}

BD_EVAL(row_products) {
  BD_IGNORE(op, key, scratch);
  int64_t rows = bd_tensor_elements(out), width = bd_tensor_last(in);
  for (int64_t row = 0; row < rows; row++)
    for (int64_t c = 0; c < width; c++)
      out->data[row] += in[0].data[row * width + c] * in[1].data[row * width + c];
}

// Operands: products, lse, sinks.
BD_EVAL(sinks_grad) {
  BD_IGNORE(op, key, scratch);
  int64_t rows = bd_tensor_elements(in), heads = bd_tensor_last(out);
  for (int64_t row = 0; row < rows; row++)
    out->data[row % heads] -= exp(in[2].data[row % heads] - in[1].data[row]) * in[0].data[row];
}

// With P the probabilities of attention under lse', whose rows with that of the sink sum to 1, and
// D the sums of dout out along rows: the gradient of scores is P (dP - D), which is what that of
// attention makes of out and lse' as they are; that of a row's sink is exp(s - lse') (0 - D).
static bd_status sinks_gradient(bd_ctx *ctx, bd_gradient *g) {
  const bd_type *q = bd_gradient_operand_type(g, 0), *k = bd_gradient_operand_type(g, 1);
  bd_attr group = bd_attr_int(ctx, "group", q->dims[2] / k->dims[2]);
  const bd_id both[] = {g->dout[0], bd_gradient_result(g, 0)};
  bd_id products, dsinks;
  BD_TRY(bd_build(ctx, g->backward, BD_OP_ROW_PRODUCTS, 2, both, 1, &group, g->op->loc, &products));
  const bd_id in[] = {products, bd_gradient_result(g, 1), bd_gradient_operand(g, 3)};
  BD_TRY(bd_build(ctx, g->backward, BD_OP_SINKS_GRAD, 3, in, 1, &group, g->op->loc, &dsinks));
  return bd_gradient_as_operand(ctx, g, 3, dsinks, &g->din[3]);
}

BD_GRADIENT(sink_attention) {
  bd_id din[4];
  if (g->need[0] || g->need[1] || g->need[2])
    BD_TRY(bd_attention_gradient(ctx, g, BD_OP_ATTENTION_GRAD, din));
  return g->need[3] ? sinks_gradient(ctx, g) : BD_OK;
}
