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
