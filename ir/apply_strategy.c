// A function pair under a strategy: forms and splits on the forward function, and a backward
// function that restores what the strategy saves and recomputes the rest.
#include "ir/balance.h"
#include "ir/free_names.h"
#include "ir/partition.h"
#include "ir/parts.h"
#include <string.h>

typedef struct applying {
  bd_ctx *ctx;
  const bd_mesh *mesh;
  int64_t batch;
  const bd_strategy *strategy;
  const bd_function *source;          // train's forward function
  const bd_function *source_backward; // train's, or NULL
  bd_function *backward;
  bool *needed;        // per forward value: backward or a clone reads it
  bool *available;     // per forward value: restored from the tape or from main
  bool *cloned;        // per forward op
  bd_id *held;         // per forward value: the new backward function's value that holds it
  bd_id *moved;        // per value of the source backward function: its new id
  bd_free_names names; // of the backward function
} applying;

// Loops per mesh axis from a strategy's letters; -1 where the op lacks the letter or may not split
// it.
static void split_of_letters(const applying *a, const bd_index_map *map,
                             const char letters[BD_MAX_AXES], int8_t split[BD_MAX_AXES]) {
  for (int axis = 0; axis < BD_MAX_AXES; ++axis)
    split[axis] = -1;
  for (int axis = 0; axis < a->mesh->axes; ++axis) {
    if (letters[axis] == '-') continue;
    split[axis] = (int8_t)bd_index_find(map, letters[axis]);
    if (!bd_split_valid(map, a->mesh, a->batch, split)) split[axis] = -1;
  }
}

static bd_status set_split(const applying *a, const bd_function *function, bd_op *op,
                           const char letters[BD_MAX_AXES], bool exact) {
  bd_index_map map;
  bd_type types[BD_MAX_RESULTS];
  BD_TRY(bd_op_infer(a->ctx, function, op, &map, types));
  split_of_letters(a, &map, letters, op->split);
  op->has_split = true;
  for (int axis = 0; exact && axis < a->mesh->axes; ++axis)
    if (letters[axis] != '-' && op->split[axis] < 0)
      return bd_fail(a->ctx, BD_INVALID, op->loc,
                     "strategy %s: mesh axis %d cannot split loop '%c' of %s", a->strategy->name,
                     axis, letters[axis], bd_op_get_info(op->kind)->name);
  return BD_OK;
}

// In how many parts the strategy has an op done, forward or backward, of a forward op.
static void set_parts(const applying *a, bd_op *op, int of, int pass) {
  int parts = a->strategy->parts ? a->strategy->parts[of][pass] : 1;
  if (parts > 1 && op->kind == BD_OP_CONTRACT)
    bd_op_set_attr(a->ctx, op, bd_attr_int(a->ctx, BD_PARTS_ATTR, parts));
}

// Products that the strategy leaves in bf16.
static void set_bf16(const applying *a, bd_op *op, int of, bd_product_of product) {
  if (a->strategy->bf16 && a->strategy->bf16[of] >> product & 1) bd_op_drop_attr(a->ctx, op, "fp8");
}

// Of an op with its split.
static bd_status set_balanced(const applying *a, const bd_function *function, bd_op *op, int of) {
  bd_index_map map;
  bd_type types[BD_MAX_RESULTS];
  if (!a->strategy->balanced || !a->strategy->balanced[of] || !bd_op_attends(op->kind))
    return BD_OK;
  BD_TRY(bd_op_infer(a->ctx, function, op, &map, types));
  if (bd_balance_chunk(op, &map, a->mesh, op->split))
    bd_op_set_attr(a->ctx, op, bd_attr_int(a->ctx, BD_BALANCED_ATTR, 1));
  return BD_OK;
}

bool bd_is_weight_gradient(const bd_function *forward, const bd_function *backward, bd_id value) {
  for (int i = 0; i < backward->result_count; ++i)
    if (backward->results[i] == value && forward->is_weight[backward->gradient_of[i]]) return true;
  return false;
}

static const char *backward_name(const applying *a) {
  return bd_intern_f(a->ctx, "%s.grad", a->strategy->name);
}

static bd_status apply_forward(const applying *a, bd_function **out_forward) {
  bd_function *forward = bd_function_clone(a->ctx, a->source);
  forward->name = bd_intern_z(a->ctx, a->strategy->name);
  forward->peer = a->source_backward ? backward_name(a) : NULL;
  for (bd_id v = 0; v < forward->value_count; ++v) {
    forward->values[v].sharding = a->strategy->form[v];
    forward->values[v].has_sharding = true;
  }
  for (int i = 0; i < forward->op_count; ++i) {
    forward->ops[i].group = i;
    BD_TRY(set_split(a, forward, &forward->ops[i], a->strategy->split[i], true));
    set_parts(a, &forward->ops[i], i, BD_PARTS_FORWARD);
    set_bf16(a, &forward->ops[i], i, BD_PRODUCT_FORWARD);
    BD_TRY(set_balanced(a, forward, &forward->ops[i], i));
  }
  forward->save_count = 0;
  for (bd_id v = 0; v < forward->value_count; ++v)
    if (a->needed[v] && a->available[v]) bd_function_add_save(a->ctx, forward, v);
  *out_forward = forward;
  return BD_OK;
}

// What backward reads, what of it is at hand, and the least set of ops to run again for the rest.
static void find_closure(applying *a) {
  const bd_function *f = a->source, *b = a->source_backward;
  a->needed = BD_NEW_ARRAY(a->ctx->arena, bool, f->value_count);
  a->available = BD_NEW_ARRAY(a->ctx->arena, bool, f->value_count);
  a->cloned = BD_NEW_ARRAY(a->ctx->arena, bool, f->op_count);
  for (bd_id v = 0; v < f->value_count; ++v)
    a->available[v] = f->values[v].producer < 0 || a->strategy->saved[v];
  if (!b) return;
  bd_id *restores = BD_NEW_ARRAY(a->ctx->arena, bd_id, b->value_count);
  for (bd_id v = 0; v < b->value_count; ++v)
    restores[v] = BD_NO_ID;
  for (int i = 0; i < b->restore_count; ++i)
    restores[b->params[i]] = f->saves[i];
  for (int i = 0; i < b->op_count; ++i)
    for (int k = 0; k < b->ops[i].in_count; ++k)
      if (restores[b->ops[i].in[k]] != BD_NO_ID) a->needed[restores[b->ops[i].in[k]]] = true;
  for (int i = 0; i < b->result_count; ++i)
    if (restores[b->results[i]] != BD_NO_ID) a->needed[restores[b->results[i]]] = true;
  for (int i = f->op_count - 1; i >= 0; --i) {
    const bd_op *op = &f->ops[i];
    for (int k = 0; k < op->out_count; ++k)
      if (a->needed[op->out[k]] && !a->available[op->out[k]]) a->cloned[i] = true;
    for (int k = 0; a->cloned[i] && k < op->in_count; ++k)
      a->needed[op->in[k]] = true;
  }
}

// A name for a forward value that the backward function has not, nor will have of the source one:
// its own, or that with an ending.
static const char *fresh_name(applying *a, const char *name) {
  while (!bd_name_map_add(&a->names.taken, name, -1))
    name = bd_intern_f(a->ctx, "%s.r", name);
  return name;
}

static void take_form(const applying *a, bd_id id, bd_id forward_value) {
  a->backward->values[id].sharding = a->strategy->form[forward_value];
  a->backward->values[id].has_sharding = true;
}

// The result that the next gradient parameter belongs to: results without a gradient have none, so
// the first of its type that leaves enough results for the `remaining` gradients.
static int next_result(const bd_function *f, int from, int remaining, const bd_type *type) {
  while (f->result_count - from > remaining &&
         !bd_type_equal(&f->values[f->results[from]].type, type))
    ++from;
  return from;
}

static void add_restores(applying *a) {
  const bd_function *f = a->source, *b = a->source_backward;
  bd_id *old_param = BD_NEW_ARRAY(a->ctx->arena, bd_id, f->value_count);
  for (bd_id v = 0; v < f->value_count; ++v)
    a->held[v] = old_param[v] = BD_NO_ID;
  for (int i = 0; i < b->restore_count; ++i)
    old_param[f->saves[i]] = b->params[i];
  for (bd_id v = 0; v < f->value_count; ++v) {
    if (!a->needed[v] || !a->available[v]) continue;
    const char *name =
        old_param[v] != BD_NO_ID ? b->values[old_param[v]].name : fresh_name(a, f->values[v].name);
    a->held[v] = bd_function_add_param(a->ctx, a->backward, name, f->values[v].type);
    take_form(a, a->held[v], v);
    for (int p = 0; p < f->param_count; ++p)
      if (f->params[p] == v && f->is_weight[p])
        a->backward->is_weight[a->backward->param_count - 1] = true;
  }
  a->backward->restore_count = a->backward->param_count;
  int result = 0;
  for (int i = b->restore_count; i < b->param_count; ++i) {
    const bd_value *value = &b->values[b->params[i]];
    result = next_result(f, result, b->param_count - i, &value->type);
    bd_id id = bd_function_add_param(a->ctx, a->backward, value->name, value->type);
    a->moved[b->params[i]] = id;
    take_form(a, id, f->results[result++]);
  }
}

static bd_op *copy_op(applying *a, const bd_op *op, const bd_id *in, const bd_id *out) {
  bd_op *copy = bd_function_add_op(a->ctx, a->backward, op->kind, op->in_count, in, op->out_count,
                                   out, op->loc);
  copy->attr_count = op->attr_count;
  copy->attrs = op->attrs;
  copy->group = op->group;
  return copy;
}

static bd_status add_clones(applying *a) {
  const bd_function *f = a->source;
  for (int i = 0; i < f->op_count; ++i) {
    if (!a->cloned[i]) continue;
    const bd_op *op = &f->ops[i];
    bd_id in[BD_MAX_OPERANDS], out[BD_MAX_RESULTS];
    for (int k = 0; k < op->in_count; ++k)
      in[k] = a->held[op->in[k]];
    for (int k = 0; k < op->out_count; ++k) {
      bd_id v = op->out[k];
      out[k] = bd_function_add_value(a->ctx, a->backward, fresh_name(a, f->values[v].name),
                                     f->values[v].type);
      take_form(a, out[k], v);
      if (a->held[v] == BD_NO_ID) a->held[v] = out[k];
    }
    bd_op *copy = copy_op(a, op, in, out);
    copy->group = i;
    copy->recomputed = true;
    BD_TRY(set_split(a, a->backward, copy, a->strategy->split[i], true));
    set_parts(a, copy, i, BD_PARTS_FORWARD);
    set_bf16(a, copy, i, BD_PRODUCT_FORWARD);
    BD_TRY(set_balanced(a, a->backward, copy, i));
  }
  return BD_OK;
}

// A value of its own for a gradient that is something else as well.
static bd_id add_copy(applying *a, bd_id of) {
  bd_ctx *ctx = a->ctx;
  bd_id copy = bd_function_add_value(ctx, a->backward, NULL, a->backward->values[of].type);
  bd_op *op = bd_function_add_op(ctx, a->backward, BD_OP_SCALE, 1, &of, 1, &copy, a->source->loc);
  bd_op_set_attr(ctx, op, bd_attr_real(ctx, "value", 1));
  op->group = -1;
  op->has_split = true;
  for (int axis = 0; axis < BD_MAX_AXES; ++axis)
    op->split[axis] = -1;
  return copy;
}

// A gradient whose accumulator is cut further than its weight has that form; others have none and
// follow their weight.
static void add_gradient(applying *a, int param, bd_id id) {
  bd_id weight = a->source->params[param];
  const bd_sharding *form = a->strategy->gradient ? &a->strategy->gradient[weight] : NULL;
  bool apart =
      form && a->source->is_weight[param] && !bd_sharding_equal(form, &a->strategy->form[weight]);
  if (apart && (a->backward->values[id].producer < 0 ||
                bd_ids_find(a->backward->results, a->backward->result_count, id) >= 0 ||
                a->backward->values[id].has_sharding))
    id = add_copy(a, id);
  if (apart) {
    a->backward->values[id].sharding = *form;
    a->backward->values[id].has_sharding = true;
  }
  bd_function_add_result(a->ctx, a->backward, id);
}

static bd_status add_gradient_ops(applying *a) {
  static const char unsplit[BD_MAX_AXES] = {'-', '-', '-', '-'};
  const bd_function *f = a->source, *b = a->source_backward;
  for (int i = 0; i < b->restore_count; ++i)
    a->moved[b->params[i]] = a->held[f->saves[i]];
  for (int i = 0; i < b->op_count; ++i) {
    const bd_op *op = &b->ops[i];
    bd_id in[BD_MAX_OPERANDS], out[BD_MAX_RESULTS];
    for (int k = 0; k < op->in_count; ++k)
      in[k] = a->moved[op->in[k]];
    for (int k = 0; k < op->out_count; ++k) {
      const bd_value *value = &b->values[op->out[k]];
      out[k] = bd_function_add_value(a->ctx, a->backward, value->name, value->type);
      a->moved[op->out[k]] = out[k];
    }
    bd_op *copy = copy_op(a, op, in, out);
    bool grouped = op->group >= 0 && op->group < f->op_count;
    BD_TRY(
        set_split(a, a->backward, copy, grouped ? a->strategy->split[op->group] : unsplit, false));
    bool of_weight = bd_is_weight_gradient(a->source, a->source_backward, op->out[0]);
    if (grouped && !of_weight) set_parts(a, copy, op->group, BD_PARTS_BACKWARD);
    if (grouped) set_bf16(a, copy, op->group, of_weight ? BD_PRODUCT_WEIGHT : BD_PRODUCT_INPUT);
    if (grouped) BD_TRY(set_balanced(a, a->backward, copy, op->group));
  }
  for (int i = 0; i < b->result_count; ++i) {
    add_gradient(a, b->gradient_of[i], a->moved[b->results[i]]);
    a->backward->gradient_of[i] = b->gradient_of[i];
  }
  return BD_OK;
}

static bd_status apply_backward(applying *a, bd_function **out_backward) {
  a->backward = bd_function_create(a->ctx, backward_name(a));
  a->backward->role = BD_ROLE_BACKWARD;
  a->backward->peer = bd_intern_z(a->ctx, a->strategy->name);
  a->backward->loc = a->source_backward->loc;
  a->held = BD_NEW_ARRAY(a->ctx->arena, bd_id, a->source->value_count);
  a->moved = BD_NEW_ARRAY(a->ctx->arena, bd_id, a->source_backward->value_count);
  a->names = bd_free_names_of(a->ctx, a->source_backward);
  add_restores(a);
  BD_TRY(add_clones(a));
  BD_TRY(add_gradient_ops(a));
  *out_backward = a->backward;
  return BD_OK;
}

const bool *bd_strategy_recomputed(bd_ctx *ctx, const bd_module *train,
                                   const bd_strategy *strategy) {
  applying a = {.ctx = ctx, .strategy = strategy};
  a.source = bd_module_find(train, strategy->function);
  if (a.source->peer) a.source_backward = bd_module_find(train, a.source->peer);
  find_closure(&a);
  return a.cloned;
}

const bool *bd_strategy_kept(bd_ctx *ctx, const bd_module *train, const bd_strategy *strategy) {
  applying a = {.ctx = ctx, .strategy = strategy};
  a.source = bd_module_find(train, strategy->function);
  if (a.source->peer) a.source_backward = bd_module_find(train, a.source->peer);
  find_closure(&a);
  bool *kept = BD_NEW_ARRAY(ctx->arena, bool, a.source->value_count);
  for (bd_id v = 0; v < a.source->value_count; ++v)
    kept[v] = a.needed[v] && strategy->saved[v] && a.source->values[v].producer >= 0;
  return kept;
}

bd_status bd_apply_strategy(bd_ctx *ctx, const bd_module *train, const bd_mesh *mesh,
                            int64_t micro_batch, const bd_strategy *strategy,
                            bd_function **out_forward, bd_function **out_backward) {
  applying a = {.ctx = ctx, .mesh = mesh, .batch = micro_batch, .strategy = strategy};
  a.source = bd_module_find(train, strategy->function);
  if (!a.source || a.source->role != BD_ROLE_FORWARD)
    return bd_fail(ctx, BD_INVALID, BD_NOWHERE, "strategy %s: no forward function %s",
                   strategy->name, strategy->function);
  if (strategy->op_count != a.source->op_count || strategy->value_count != a.source->value_count)
    return bd_fail(ctx, BD_INVALID, a.source->loc, "strategy %s does not fit function %s",
                   strategy->name, strategy->function);
  if (a.source->peer) a.source_backward = bd_module_find(train, a.source->peer);
  find_closure(&a);
  BD_TRY(apply_forward(&a, out_forward));
  *out_backward = NULL;
  if (a.source_backward) BD_TRY(apply_backward(&a, out_backward));
  return BD_OK;
}
