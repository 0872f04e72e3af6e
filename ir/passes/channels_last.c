// The pass `channels-last`: convolutions and pools take images [n, extents.., c], the order that
// libraries for GPUs compute in, and what lies between them follows. Images that go from call to
// call are turned as well, in all calls alike or in none; inputs of the model and weights stay.
#include "ir/passes/channels_last.h"

#include "ir/pass.h"
#include <string.h>

typedef struct turning {
  bd_ctx *ctx;
  const bd_module *in;
  bd_turned *functions; // per function of the module
  bd_id *group;         // per value of main: one that stands for all that are turned together
  bool *wanted, *fixed; // per group
} turning;

bd_type bd_type_channels_last(const bd_type *type) {
  bd_type last = *type;
  for (int d = 2; d < type->rank; d++)
    last.dims[d - 1] = type->dims[d];
  last.dims[type->rank - 1] = type->dims[1];
  return last;
}

static bd_turned *find(const turning *t, const char *name) {
  for (int i = 0; i < t->in->function_count; i++)
    if (strcmp(t->in->functions[i]->name, name) == 0) return &t->functions[i];
  return NULL;
}

static bd_id group_of(const turning *t, bd_id value) {
  while (t->group[value] != value)
    value = t->group[value];
  return value;
}

static void join(turning *t, bd_id *first, bd_id value) {
  if (*first == BD_NO_ID)
    *first = value;
  else
    t->group[group_of(t, value)] = group_of(t, *first);
}

// What is passed in one place of a function is turned together in all calls.
static void join_calls(turning *t) {
  const bd_function *main = t->in->main;
  for (int i = 0; i < t->in->function_count; i++) {
    const bd_function *f = t->in->functions[i];
    bd_id *first = BD_NEW_ARRAY(t->ctx->arena, bd_id, f->param_count + f->result_count);
    for (int k = 0; k < f->param_count + f->result_count; k++)
      first[k] = BD_NO_ID;
    for (int c = 0; c < main->op_count; c++) {
      const bd_op *call = &main->ops[c];
      if (call->kind != BD_OP_CALL || strcmp(call->callee, f->name) != 0) continue;
      for (int k = 0; k < call->in_count; k++)
        join(t, &first[k], call->in[k]);
      for (int k = 0; k < call->out_count; k++)
        join(t, &first[f->param_count + k], call->out[k]);
    }
  }
}

static bool is_image(const bd_type *type) {
  return bd_dtype_is_float(type->dtype) && type->rank >= 3;
}

static void mark_groups(turning *t) {
  const bd_function *main = t->in->main;
  for (bd_id v = 0; v < main->value_count; v++)
    if (main->values[v].producer < 0 || !is_image(&main->values[v].type))
      t->fixed[group_of(t, v)] = true;
  for (int i = 0; i < main->result_count; i++)
    t->fixed[group_of(t, main->results[i])] = true;
  for (int i = 0; i < main->op_count; i++) {
    const bd_op *op = &main->ops[i];
    for (int k = 0; k < op->out_count; k++) {
      bd_id group = group_of(t, op->out[k]);
      if (op->kind != BD_OP_CALL)
        t->fixed[group] = true;
      else if (find(t, op->callee)->is_last[k])
        t->wanted[group] = true;
    }
  }
}

static bool is_turned(const turning *t, bd_id value) {
  bd_id group = group_of(t, value);
  return t->wanted[group] && !t->fixed[group];
}

static bd_status start(turning *t) {
  bd_arena *arena = t->ctx->arena;
  int values = t->in->main->value_count;
  t->functions = BD_NEW_ARRAY(arena, bd_turned, t->in->function_count);
  t->group = BD_NEW_ARRAY(arena, bd_id, values);
  t->wanted = BD_NEW_ARRAY(arena, bool, values);
  t->fixed = BD_NEW_ARRAY(arena, bool, values);
  for (bd_id v = 0; v < values; v++)
    t->group[v] = v;
  for (int i = 0; i < t->in->function_count; i++) {
    const bd_function *from = t->in->functions[i];
    t->functions[i] = (bd_turned){.from = from,
                                  .param = BD_NEW_ARRAY(arena, bool, from->param_count),
                                  .result = BD_NEW_ARRAY(arena, bool, from->result_count),
                                  .is_last = BD_NEW_ARRAY(arena, bool, from->result_count)};
    BD_TRY(bd_turn_function(t->ctx, &t->functions[i]));
  }
  join_calls(t);
  mark_groups(t);
  return BD_OK;
}

static void turn_main(const turning *t, bd_module *out) {
  bd_function *main = out->main;
  for (int i = 0; i < main->op_count; i++) {
    const bd_op *op = &main->ops[i];
    bd_turned *callee = op->kind == BD_OP_CALL ? find(t, op->callee) : NULL;
    for (int k = 0; callee && k < op->in_count; k++)
      callee->param[k] = is_turned(t, op->in[k]);
    for (int k = 0; callee && k < op->out_count; k++)
      callee->result[k] = is_turned(t, op->out[k]);
  }
  for (bd_id v = 0; v < main->value_count; v++)
    if (is_turned(t, v)) main->values[v].type = bd_type_channels_last(&main->values[v].type);
}

static bool has_images(const bd_module *module) {
  for (int i = 0; i < module->function_count; i++) {
    const bd_function *f = module->functions[i];
    for (int k = 0; k < f->op_count; k++)
      if (bd_has_channels_second(&f->ops[k])) return true;
  }
  return false;
}

bd_status bd_pass_channels_last(bd_ctx *ctx, const bd_module *in, bd_module **out_module) {
  turning t = {.ctx = ctx, .in = in};
  bd_module *out = bd_module_clone(ctx, in);
  *out_module = out;
  if (!has_images(in)) return BD_OK;
  BD_TRY(start(&t));
  turn_main(&t, out);
  for (int i = 0; i < in->function_count; i++) {
    BD_TRY(bd_turn_function(ctx, &t.functions[i]));
    out->functions[i] = t.functions[i].to;
  }
  return BD_OK;
}
