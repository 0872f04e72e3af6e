#include "ir/passes/rewrite.h"

bd_rewrite bd_rewrite_begin(bd_ctx *ctx, const bd_function *function) {
  bd_rewrite rewrite = {.function = bd_function_clone(ctx, function),
                        .drop = BD_NEW_ARRAY(ctx->arena, bool, function->op_count),
                        .stands = BD_NEW_ARRAY(ctx->arena, bd_id, function->value_count),
                        .is_result = BD_NEW_ARRAY(ctx->arena, bool, function->value_count)};
  for (bd_id id = 0; id < function->value_count; ++id)
    rewrite.stands[id] = id;
  for (int i = 0; i < function->result_count; ++i)
    rewrite.is_result[function->results[i]] = true;
  return rewrite;
}

bool bd_rewrite_replace(bd_rewrite *rewrite, int index, bd_id by) {
  const bd_op *op = &rewrite->function->ops[index];
  for (int i = 0; i < op->out_count; ++i)
    if (rewrite->is_result[op->out[i]]) return false;
  rewrite->stands[op->out[0]] = by;
  rewrite->drop[index] = true;
  return true;
}

static bd_id copy_value(bd_ctx *ctx, bd_function *to, const bd_value *value) {
  bd_id id = bd_function_add_value(ctx, to, value->name, value->type);
  bd_value *copy = &to->values[id];
  copy->sharding = value->sharding;
  copy->has_sharding = value->has_sharding;
  copy->segment = value->segment;
  copy->offset_bytes = value->offset_bytes;
  return id;
}

static void copy_op(bd_ctx *ctx, const bd_function *from, const bd_op *op, bd_function *to,
                    bd_id *moved) {
  for (int i = 0; i < op->in_count; ++i)
    op->in[i] = moved[op->in[i]];
  for (int i = 0; i < op->out_count; ++i) {
    bd_id id = copy_value(ctx, to, &from->values[op->out[i]]);
    moved[op->out[i]] = id;
    op->out[i] = id;
  }
  bd_op *copy =
      bd_function_add_op(ctx, to, op->kind, op->in_count, op->in, op->out_count, op->out, op->loc);
  copy->attr_count = op->attr_count;
  copy->attrs = op->attrs;
  copy->callee = op->callee;
  copy->stage = op->stage;
}

bd_function *bd_rewrite_end(bd_ctx *ctx, const bd_rewrite *rewrite) {
  bd_function *from = rewrite->function;
  bd_function *to = bd_function_create(ctx, from->name);
  to->loc = from->loc;
  bd_id *moved = BD_NEW_ARRAY(ctx->arena, bd_id, from->value_count);
  for (int i = 0; i < from->param_count; ++i) {
    const bd_value *value = &from->values[from->params[i]];
    moved[from->params[i]] = bd_function_add_param(ctx, to, value->name, value->type);
    to->is_weight[i] = from->is_weight && from->is_weight[i];
  }
  for (int i = 0; i < from->op_count; ++i) {
    bd_op *op = &from->ops[i];
    if (rewrite->drop[i]) continue;
    for (int k = 0; k < op->in_count; ++k)
      op->in[k] = rewrite->stands[op->in[k]];
    copy_op(ctx, from, op, to, moved);
  }
  for (int i = 0; i < from->result_count; ++i)
    bd_function_add_result(ctx, to, moved[from->results[i]]);
  return to;
}

bd_function *bd_rewrite_drop_unused(bd_ctx *ctx, const bd_function *function) {
  bd_rewrite rewrite = bd_rewrite_begin(ctx, function);
  bool *used = rewrite.is_result;
  for (int i = function->op_count; i-- > 0;) {
    const bd_op *op = &function->ops[i];
    bool needed = false;
    for (int r = 0; r < op->out_count; ++r)
      needed = needed || used[op->out[r]];
    rewrite.drop[i] = !needed;
    for (int k = 0; needed && k < op->in_count; ++k)
      used[op->in[k]] = true;
  }
  return bd_rewrite_end(ctx, &rewrite);
}
