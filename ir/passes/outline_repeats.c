#include "ir/name_map.h"
#include "ir/pass.h"
#include "ir/passes/outline.h"
#include <string.h>

typedef struct outliner {
  bd_ctx *ctx;
  bd_module *module; // being made
  bd_function *main; // its main, being made
  bd_id *moved;      // per value of the old main: the new one
  bd_name_map names; // of functions
} outliner;

static const char *free_name(outliner *o, const char *base, int number) {
  for (;; ++number) {
    const char *name = bd_intern_f(o->ctx, "%s.%d", base, number);
    if (bd_name_map_add(&o->names, name, 0)) return name;
  }
}

// The ops of a piece as a function of its border.
static void make_function(outliner *o, const bd_function *from, const bd_piece *piece,
                          const bd_border *border, const char *name) {
  bd_function *to = bd_function_create(o->ctx, name);
  bd_id *moved = BD_NEW_ARRAY(o->ctx->arena, bd_id, from->value_count);
  to->loc = from->ops[piece->first].loc;
  for (int i = 0; i < border->in_count; ++i) {
    const bd_value *value = &from->values[border->in[i]];
    moved[border->in[i]] = bd_function_add_param(o->ctx, to, value->name, value->type);
    to->is_weight[i] = bd_function_is_weight(from, border->in[i]);
  }
  for (int i = piece->first; i < piece->first + piece->count; ++i) {
    const bd_op *op = &from->ops[i];
    bd_id *in = BD_NEW_ARRAY(o->ctx->arena, bd_id, op->in_count);
    bd_id *out = BD_NEW_ARRAY(o->ctx->arena, bd_id, op->out_count);
    for (int k = 0; k < op->in_count; ++k)
      in[k] = moved[op->in[k]];
    for (int r = 0; r < op->out_count; ++r) {
      const bd_value *value = &from->values[op->out[r]];
      out[r] = bd_function_add_value(o->ctx, to, value->name, value->type);
      moved[op->out[r]] = out[r];
    }
    bd_op *copy =
        bd_function_add_op(o->ctx, to, op->kind, op->in_count, in, op->out_count, out, op->loc);
    copy->attr_count = op->attr_count;
    copy->attrs = op->attrs;
  }
  for (int i = 0; i < border->out_count; ++i)
    bd_function_add_result(o->ctx, to, moved[border->out[i]]);
  bd_module_add_function(o->ctx, o->module, to);
}

// Calls one piece; `held` maps the function's values to main's.
static void call_piece(outliner *o, const bd_function *from, const bd_border *border,
                       const char *name, bd_loc loc, bd_id *held) {
  bd_id *in = BD_NEW_ARRAY(o->ctx->arena, bd_id, border->in_count);
  bd_id *out = BD_NEW_ARRAY(o->ctx->arena, bd_id, border->out_count);
  for (int i = 0; i < border->in_count; ++i)
    in[i] = held[border->in[i]];
  for (int i = 0; i < border->out_count; ++i) {
    out[i] = bd_function_add_value(o->ctx, o->main, NULL, from->values[border->out[i]].type);
    held[border->out[i]] = out[i];
  }
  bd_op *op = bd_function_add_op(o->ctx, o->main, BD_OP_CALL, border->in_count, in,
                                 border->out_count, out, loc);
  op->callee = name;
}

// Calls the pieces of `from` instead of `from` itself.
static void replace_call(outliner *o, const bd_function *from, const bd_op *call,
                         const bd_piece *pieces, int count) {
  const int *last_use = bd_outline_last_uses(o->ctx, from);
  bd_id *held = BD_NEW_ARRAY(o->ctx->arena, bd_id, from->value_count);
  const char **names = BD_NEW_ARRAY(o->ctx->arena, const char *, count);
  for (int i = 0; i < from->param_count; ++i)
    held[from->params[i]] = o->moved[call->in[i]];
  for (int i = 0; i < count; ++i) {
    const bd_piece *piece = &pieces[i];
    bd_border border = bd_outline_border(o->ctx, from, last_use, piece->first, piece->count);
    if (border.out_count == 0) continue;
    if (!names[piece->shape]) {
      names[piece->shape] = free_name(o, from->name, piece->shape);
      make_function(o, from, piece, &border, names[piece->shape]);
    }
    call_piece(o, from, &border, names[piece->shape], call->loc, held);
  }
  for (int r = 0; r < call->out_count; ++r)
    o->moved[call->out[r]] = held[from->results[r]];
}

static void copy_call(outliner *o, const bd_function *old_main, const bd_op *call) {
  bd_id *in = BD_NEW_ARRAY(o->ctx->arena, bd_id, call->in_count);
  bd_id *out = BD_NEW_ARRAY(o->ctx->arena, bd_id, call->out_count);
  for (int i = 0; i < call->in_count; ++i)
    in[i] = o->moved[call->in[i]];
  for (int i = 0; i < call->out_count; ++i) {
    out[i] = bd_function_add_value(o->ctx, o->main, NULL, old_main->values[call->out[i]].type);
    o->moved[call->out[i]] = out[i];
  }
  bd_op *copy = bd_function_add_op(o->ctx, o->main, call->kind, call->in_count, in, call->out_count,
                                   out, call->loc);
  copy->callee = call->callee;
  copy->attr_count = call->attr_count;
  copy->attrs = call->attrs;
}

static int count_calls(const bd_function *main, const char *name) {
  int count = 0;
  for (int i = 0; i < main->op_count; ++i)
    count += main->ops[i].callee && strcmp(main->ops[i].callee, name) == 0;
  return count;
}

static void begin_main(outliner *o, const bd_function *old_main) {
  o->main = bd_function_create(o->ctx, old_main->name);
  o->main->loc = old_main->loc;
  o->moved = BD_NEW_ARRAY(o->ctx->arena, bd_id, old_main->value_count);
  for (int i = 0; i < old_main->param_count; ++i) {
    const bd_value *value = &old_main->values[old_main->params[i]];
    o->moved[old_main->params[i]] =
        bd_function_add_param(o->ctx, o->main, value->name, value->type);
    o->main->is_weight[i] = old_main->is_weight && old_main->is_weight[i];
  }
}

bd_status bd_pass_outline_repeats(bd_ctx *ctx, const bd_module *in, bd_module **out_module) {
  outliner o = {ctx, bd_module_clone(ctx, in), NULL, NULL, bd_name_map_init(ctx->arena)};
  bd_piece **pieces = BD_NEW_ARRAY(ctx->arena, bd_piece *, in->function_count);
  int *counts = BD_NEW_ARRAY(ctx->arena, int, in->function_count);
  bd_name_map numbers = bd_name_map_init(ctx->arena);
  o.module->function_count = 0;
  for (int i = 0; i < in->function_count; ++i) {
    bd_function *function = in->functions[i];
    bd_name_map_add(&numbers, function->name, i);
    if (count_calls(in->main, function->name) == 1)
      counts[i] = bd_outline_find(ctx, function, &pieces[i]);
    bd_name_map_add(&o.names, function->name, i);
    if (counts[i] < 2) bd_module_add_function(ctx, o.module, bd_function_clone(ctx, function));
  }
  begin_main(&o, in->main);
  for (int i = 0; i < in->main->op_count; ++i) {
    const bd_op *call = &in->main->ops[i];
    int callee = call->callee ? bd_name_map_find(&numbers, call->callee) : -1;
    if (callee >= 0 && counts[callee] >= 2)
      replace_call(&o, in->functions[callee], call, pieces[callee], counts[callee]);
    else
      copy_call(&o, in->main, call);
  }
  for (int i = 0; i < in->main->result_count; ++i)
    bd_function_add_result(ctx, o.main, o.moved[in->main->results[i]]);
  o.module->main = o.main;
  *out_module = o.module;
  return BD_OK;
}
