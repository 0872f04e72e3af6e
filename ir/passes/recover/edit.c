#include "ir/passes/recover/edit.h"
#include "ir/name_map.h"

bd_readers bd_find_readers(bd_ctx *ctx, const bd_function *function) {
  int *first = BD_NEW_ARRAY(ctx->arena, int, function->value_count + 2), total = 0;
  bool *is_result = BD_NEW_ARRAY(ctx->arena, bool, function->value_count);
  for (int i = 0; i < function->op_count; total += function->ops[i++].in_count)
    for (int k = 0; k < function->ops[i].in_count; ++k)
      ++first[function->ops[i].in[k] + 2];
  for (int i = 0; i < function->value_count; ++i)
    first[i + 2] += first[i + 1];
  int *ops = BD_NEW_ARRAY(ctx->arena, int, total);
  for (int i = 0; i < function->op_count; ++i)
    for (int k = 0; k < function->ops[i].in_count; ++k)
      ops[first[function->ops[i].in[k] + 1]++] = i;
  for (int i = 0; i < function->result_count; ++i)
    is_result[function->results[i]] = true;
  return (bd_readers){first, ops, is_result};
}

static void copy_op(bd_edit *e, const bd_op *op) {
  bd_id *in = BD_NEW_ARRAY(e->ctx->arena, bd_id, op->in_count);
  bd_id *out = BD_NEW_ARRAY(e->ctx->arena, bd_id, op->out_count);
  for (int i = 0; i < op->in_count; ++i)
    in[i] = e->moved[op->in[i]];
  for (int i = 0; i < op->out_count; ++i) {
    const bd_value *value = &e->from->values[op->out[i]];
    out[i] = bd_function_add_value(e->ctx, e->to, value->name, value->type);
    e->moved[op->out[i]] = out[i];
  }
  bd_op *copy =
      bd_function_add_op(e->ctx, e->to, op->kind, op->in_count, in, op->out_count, out, op->loc);
  copy->attr_count = op->attr_count;
  copy->attrs = op->attrs;
}

// Makes `to`, with everything before the current op.
static void begin(bd_edit *e) {
  const bd_function *from = e->from;
  if (!e->to) {
    e->to = bd_function_create(e->ctx, from->name);
    e->to->loc = from->loc;
    e->moved = BD_NEW_ARRAY(e->ctx->arena, bd_id, from->value_count);
    for (int i = 0; i < from->param_count; ++i) {
      const bd_value *value = &from->values[from->params[i]];
      e->moved[from->params[i]] = bd_function_add_param(e->ctx, e->to, value->name, value->type);
      e->to->is_weight[i] = from->is_weight && from->is_weight[i];
    }
  }
  for (; e->copied < e->at; ++e->copied)
    copy_op(e, &from->ops[e->copied]);
}

// Values that rules made and that stand for none get the next free numbers as names.
static void name_values(bd_edit *e) {
  bd_name_map names = bd_name_map_init(e->ctx->arena);
  bd_function *to = e->to;
  for (int i = 0; i < to->value_count; ++i)
    if (to->values[i].name[0]) bd_name_map_add(&names, to->values[i].name, i);
  int number = to->value_count;
  for (int i = 0; i < to->value_count; ++i)
    while (!to->values[i].name[0]) {
      const char *name = bd_intern_f(e->ctx, "%d", number++);
      if (bd_name_map_add(&names, name, i)) to->values[i].name = name;
    }
}

// Every op of a graph is a function of its operands, so those without a used result can go. Their
// values stay, unread, until the function is copied.
static void drop_unused(bd_edit *e) {
  bd_function *to = e->to;
  bool *used = BD_NEW_ARRAY(e->ctx->arena, bool, to->value_count);
  bool *needed = BD_NEW_ARRAY(e->ctx->arena, bool, to->op_count);
  for (int i = 0; i < to->result_count; ++i)
    used[to->results[i]] = true;
  for (int i = to->op_count - 1; i >= 0; --i) {
    const bd_op *op = &to->ops[i];
    for (int r = 0; r < op->out_count; ++r)
      needed[i] = needed[i] || used[op->out[r]];
    for (int k = 0; needed[i] && k < op->in_count; ++k)
      used[op->in[k]] = true;
  }
  int kept = 0;
  for (int i = 0; i < to->op_count; ++i) {
    if (!needed[i]) continue;
    to->ops[kept] = to->ops[i];
    to->ops[kept].group = kept;
    for (int r = 0; r < to->ops[kept].out_count; ++r)
      to->values[to->ops[kept].out[r]].producer = kept;
    ++kept;
  }
  to->op_count = kept;
}

bd_status bd_edit_run(bd_ctx *ctx, bd_edit_rule rule, const void *user, bd_function **function,
                      int *changes) {
  bd_edit e = {.ctx = ctx, .from = *function, .readers = bd_find_readers(ctx, *function)};
  for (e.at = 0; e.at < e.from->op_count; ++e.at)
    BD_TRY(rule(&e, user));
  if (!e.to) return BD_OK;
  begin(&e);
  for (int i = 0; i < e.from->result_count; ++i)
    bd_function_add_result(ctx, e.to, e.moved[e.from->results[i]]);
  name_values(&e);
  drop_unused(&e);
  *function = e.to;
  *changes += e.changes;
  return BD_OK;
}

bd_id bd_edit_value(bd_edit *e, bd_id id) {
  begin(e);
  return e->moved[id];
}

const bd_type *bd_edit_type(const bd_edit *e, bd_id id) {
  return &e->to->values[id].type;
}

bd_status bd_edit_emit(bd_edit *e, bd_op_kind kind, int in_count, const bd_id *in, int attr_count,
                       const bd_attr *attrs, bd_id *out) {
  begin(e);
  bd_id results[BD_MAX_RESULTS];
  bd_type types[BD_MAX_RESULTS];
  bd_index_map map;
  int out_count = bd_op_get_info(kind)->out;
  bd_op op = {.kind = kind, .in_count = in_count, .out_count = out_count};
  op.in = (bd_id *)bd_arena_copy(e->ctx->arena, in, in_count, sizeof *in);
  op.loc = e->from->ops[e->at].loc;
  op.attr_count = attr_count;
  op.attrs = bd_arena_copy(e->ctx->arena, attrs, attr_count, sizeof *attrs);
  BD_TRY(bd_op_infer(e->ctx, e->to, &op, &map, types));
  for (int i = 0; i < out_count; ++i)
    results[i] = bd_function_add_value(e->ctx, e->to, "", types[i]);
  bd_op *made = bd_function_add_op(e->ctx, e->to, kind, in_count, in, out_count, results, op.loc);
  made->attr_count = op.attr_count;
  made->attrs = op.attrs;
  *out = results[0];
  return BD_OK;
}

void bd_edit_stand(bd_edit *e, bd_id id, bd_id made) {
  begin(e);
  bd_value *value = &e->to->values[made];
  if (!value->name[0]) value->name = e->from->values[id].name;
  e->moved[id] = made;
  if (e->copied == e->at) {
    e->copied = e->at + 1;
    ++e->changes;
  }
}

const bd_op *bd_edit_producer(const bd_edit *e, bd_id id) {
  int producer = e->from->values[id].producer;
  return producer < 0 ? NULL : &e->from->ops[producer];
}

int bd_edit_reads(const bd_edit *e, bd_id id) {
  return e->readers.first[id + 1] - e->readers.first[id] + e->readers.is_result[id];
}
