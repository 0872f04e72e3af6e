#include "ir/flatten.h"
#include <assert.h>

typedef struct flattening {
  bd_ctx *ctx;
  const bd_module *graph;
  bd_function *flat;
} flattening;

// Appends an op of `from`, whose values are those of `flat` that `made` says.
static void add_op(const flattening *f, const bd_function *from, const bd_op *op, bd_id *made) {
  bd_id *in = BD_NEW_ARRAY(f->ctx->arena, bd_id, op->in_count);
  bd_id *out = BD_NEW_ARRAY(f->ctx->arena, bd_id, op->out_count);
  for (int i = 0; i < op->in_count; i++)
    in[i] = made[op->in[i]];
  for (int i = 0; i < op->out_count; i++)
    made[op->out[i]] = out[i] =
        bd_function_add_value(f->ctx, f->flat, NULL, from->values[op->out[i]].type);
  bd_op *copy =
      bd_function_add_op(f->ctx, f->flat, op->kind, op->in_count, in, op->out_count, out, op->loc);
  for (int i = 0; i < op->attr_count; i++)
    bd_op_set_attr(f->ctx, copy, op->attrs[i]);
}

static void add_call(const flattening *f, const bd_op *call, bd_id *main_made) {
  const bd_function *callee = bd_module_find(f->graph, call->callee);
  bd_id *made = BD_NEW_ARRAY(f->ctx->arena, bd_id, callee->value_count);
  assert(callee->param_count == call->in_count && callee->result_count == call->out_count);
  for (int i = 0; i < callee->param_count; i++)
    made[callee->params[i]] = main_made[call->in[i]];
  for (int i = 0; i < callee->op_count; i++)
    add_op(f, callee, &callee->ops[i], made);
  for (int i = 0; i < callee->result_count; i++)
    main_made[call->out[i]] = made[callee->results[i]];
}

bd_function *bd_module_flatten(bd_ctx *ctx, const bd_module *graph) {
  const bd_function *main = graph->main;
  const flattening f = {ctx, graph, bd_function_create(ctx, main->name)};
  bd_id *made = BD_NEW_ARRAY(ctx->arena, bd_id, main->value_count);
  for (int i = 0; i < main->param_count; i++)
    made[main->params[i]] =
        bd_function_add_param(ctx, f.flat, NULL, main->values[main->params[i]].type);
  for (int i = 0; i < main->op_count; i++) {
    if (main->ops[i].kind == BD_OP_CALL)
      add_call(&f, &main->ops[i], made);
    else
      add_op(&f, main, &main->ops[i], made);
  }
  for (int i = 0; i < main->result_count; i++)
    bd_function_add_result(ctx, f.flat, made[main->results[i]]);
  return f.flat;
}
