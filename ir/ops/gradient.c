// Helpers that append ops to a backward function.
#include "ir/ops/ops.h"

bd_status bd_gradient_unary(bd_ctx *ctx, bd_gradient *g, bd_op_kind kind, bd_id a, bd_id *out) {
  return bd_build(ctx, g->backward, kind, 1, &a, 0, NULL, g->op->loc, out);
}

bd_status bd_gradient_binary(bd_ctx *ctx, bd_gradient *g, bd_op_kind kind, bd_id a, bd_id b,
                             bd_id *out) {
  const bd_id in[2] = {a, b};
  return bd_build(ctx, g->backward, kind, 2, in, 0, NULL, g->op->loc, out);
}

bd_status bd_gradient_as_operand(bd_ctx *ctx, bd_gradient *g, int i, bd_id a, bd_id *out) {
  bd_dtype dtype = bd_gradient_operand_type(g, i)->dtype;
  *out = a;
  if (g->backward->values[a].type.dtype == dtype) return BD_OK;
  bd_attr to = bd_attr_string(ctx, "dtype", bd_dtype_name(dtype));
  return bd_build(ctx, g->backward, BD_OP_CAST, 1, &a, 1, &to, g->op->loc, out);
}

bd_status bd_gradient_sum_to_operand(bd_ctx *ctx, bd_gradient *g, int i, bd_id value, bd_id *out) {
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

bd_status bd_gradient_fill(bd_ctx *ctx, bd_gradient *g, const bd_type *type, double value,
                           bd_id *out) {
  const bd_attr attrs[3] = {bd_attr_string(ctx, "dtype", bd_dtype_name(type->dtype)),
                            bd_attr_ints(ctx, "dims", type->rank, type->dims),
                            bd_attr_real(ctx, "value", value)};
  return bd_build(ctx, g->backward, BD_OP_CONSTANT, 0, NULL, 3, attrs, g->op->loc, out);
}

bd_status bd_gradient_where(bd_ctx *ctx, bd_gradient *g, bd_id where, bd_id value, bool otherwise,
                            bd_id *out) {
  bd_id zero;
  BD_TRY(bd_gradient_fill(ctx, g, &g->backward->values[value].type, 0, &zero));
  const bd_id in[3] = {where, otherwise ? zero : value, otherwise ? value : zero};
  return bd_build(ctx, g->backward, BD_OP_SELECT, 3, in, 0, NULL, g->op->loc, out);
}

bd_status bd_gradient_like(bd_ctx *ctx, bd_gradient *g, bd_op_kind kind, int in_count,
                           const bd_id *in, int more, const bd_attr *attrs, bd_id *out) {
  int count = g->op->attr_count + more;
  bd_attr *all = BD_NEW_ARRAY(ctx->arena, bd_attr, count);
  for (int i = 0; i < g->op->attr_count; i++)
    all[i] = g->op->attrs[i];
  for (int i = 0; i < more; i++)
    all[g->op->attr_count + i] = attrs[i];
  return bd_build(ctx, g->backward, kind, in_count, in, count, all, g->op->loc, out);
}
