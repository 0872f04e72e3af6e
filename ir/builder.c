#include "ir/index.h"
#include <assert.h>
#include <limits.h>
#include <string.h>

bd_function *bd_function_create(bd_ctx *ctx, const char *name) {
  bd_function *function = BD_NEW(ctx->arena, bd_function);
  function->name = bd_intern_z(ctx, name);
  return function;
}

static bool name_taken(const bd_function *function, const char *interned) {
  for (int i = 0; i < function->value_count; ++i)
    if (function->values[i].name == interned || strcmp(function->values[i].name, interned) == 0)
      return true;
  return false;
}

static const char *next_number(bd_ctx *ctx, const bd_function *function) {
  for (int number = function->value_count;; ++number) {
    const char *name = bd_intern_f(ctx, "%d", number);
    if (number >= function->number_end || !name_taken(function, name)) return name;
  }
}

// Numbers past an int are none that next_number comes to.
static void note_number(bd_function *function, const char *name) {
  int64_t number = 0;
  for (; *name >= '0' && *name <= '9' && number < INT_MAX; ++name)
    number = 10 * number + (*name - '0');
  if (*name == '\0' && number < INT_MAX && number >= function->number_end)
    function->number_end = (int)number + 1;
}

// `name` is interned.
static bd_id append(bd_ctx *ctx, bd_function *function, const char *name, bd_type type) {
  if (function->value_count >= function->value_capacity) {
    int capacity = 2 * function->value_count + 16;
    function->values = bd_arena_grow(ctx->arena, function->values, (size_t)function->value_count,
                                     (size_t)capacity, sizeof *function->values);
    function->value_capacity = capacity;
  }
  note_number(function, name);
  function->values[function->value_count] =
      (bd_value){.name = name, .type = type, .sharding = bd_sharding_replicated(), .producer = -1};
  return function->value_count++;
}

bd_id bd_function_add_value(bd_ctx *ctx, bd_function *function, const char *name, bd_type type) {
  return append(ctx, function, name ? bd_intern_z(ctx, name) : next_number(ctx, function), type);
}

bd_id bd_function_add_like(bd_ctx *ctx, bd_function *function, const bd_value *like) {
  bd_value from = *like; // which may be of the list that grows
  bd_id id = append(ctx, function, from.name, from.type);
  function->values[id].sharding = from.sharding;
  function->values[id].has_sharding = from.has_sharding;
  return id;
}

// The list with room for one more id.
static bd_id *grow_ids(bd_ctx *ctx, bd_id *ids, int count, int capacity) {
  return bd_arena_grow(ctx->arena, ids, (size_t)count, (size_t)capacity, sizeof *ids);
}

void bd_function_rename(bd_ctx *ctx, bd_function *function, bd_id value, const char *name) {
  function->values[value].name = bd_intern_z(ctx, name);
  note_number(function, name);
}

static bd_id append_param(bd_ctx *ctx, bd_function *function, bd_id id) {
  int count = function->param_count;
  if (count >= function->param_capacity) {
    int capacity = 2 * count + 8;
    function->params = grow_ids(ctx, function->params, count, capacity);
    size_t old_count = function->is_weight ? (size_t)count : 0;
    function->is_weight = bd_arena_grow(ctx->arena, function->is_weight, old_count,
                                        (size_t)capacity, sizeof *function->is_weight);
    function->param_capacity = capacity;
  }
  function->params[count] = id;
  function->is_weight[count] = false;
  function->param_count++;
  return id;
}

bd_id bd_function_add_param(bd_ctx *ctx, bd_function *function, const char *name, bd_type type) {
  return append_param(ctx, function, bd_function_add_value(ctx, function, name, type));
}

bd_id bd_function_add_param_like(bd_ctx *ctx, bd_function *function, const bd_value *like) {
  return append_param(ctx, function, bd_function_add_like(ctx, function, like));
}

void bd_function_add_result(bd_ctx *ctx, bd_function *function, bd_id value) {
  int count = function->result_count;
  if (count >= function->result_capacity) {
    int capacity = 2 * count + 8;
    function->results = grow_ids(ctx, function->results, count, capacity);
    size_t old_count = function->gradient_of ? (size_t)count : 0;
    function->gradient_of = bd_arena_grow(ctx->arena, function->gradient_of, old_count,
                                          (size_t)capacity, sizeof *function->gradient_of);
    function->result_capacity = capacity;
  }
  function->results[count] = value;
  function->gradient_of[count] = -1;
  function->result_count++;
}

void bd_function_add_save(bd_ctx *ctx, bd_function *function, bd_id value) {
  int count = function->save_count;
  if (count >= function->save_capacity) {
    function->save_capacity = 2 * count + 8;
    function->saves = grow_ids(ctx, function->saves, count, function->save_capacity);
  }
  function->saves[function->save_count++] = value;
}

static bd_id *copy_ids(bd_ctx *ctx, int count, const bd_id *ids) {
  bd_id *copy = BD_NEW_ARRAY(ctx->arena, bd_id, count);
  for (int i = 0; i < count; ++i)
    copy[i] = ids ? ids[i] : BD_NO_ID;
  return copy;
}

bd_op *bd_function_add_op(bd_ctx *ctx, bd_function *function, bd_op_kind kind, int in_count,
                          const bd_id *in, int out_count, const bd_id *out, bd_loc loc) {
  if (function->op_count >= function->op_capacity) {
    int capacity = 2 * function->op_count + 16;
    function->ops = bd_arena_grow(ctx->arena, function->ops, (size_t)function->op_count,
                                  (size_t)capacity, sizeof *function->ops);
    function->op_capacity = capacity;
  }
  int index = function->op_count++;
  bd_op *op = &function->ops[index];
  *op = (bd_op){.kind = kind, .in_count = in_count, .out_count = out_count, .loc = loc};
  op->in = copy_ids(ctx, in_count, in);
  op->out = copy_ids(ctx, out_count, out);
  op->group = index;
  op->stage = -1;
  for (int axis = 0; axis < BD_MAX_AXES; ++axis)
    op->split[axis] = -1;
  for (int i = 0; i < out_count; ++i) {
    if (op->out[i] == BD_NO_ID) continue;
    function->values[op->out[i]].producer = index;
    function->values[op->out[i]].result = i;
  }
  return op;
}

void bd_function_move_last_op(bd_function *function, int to) {
  bd_op last = function->ops[function->op_count - 1];
  memmove(&function->ops[to + 1], &function->ops[to],
          (size_t)(function->op_count - 1 - to) * sizeof last);
  function->ops[to] = last;
  for (int i = to; i < function->op_count; ++i)
    for (int k = 0; k < function->ops[i].out_count; ++k)
      if (function->ops[i].out[k] != BD_NO_ID)
        function->values[function->ops[i].out[k]].producer = i;
}

static bd_attr copy_attr(bd_ctx *ctx, const bd_attr *attr) {
  bd_attr copy = *attr;
  copy.name = bd_intern_z(ctx, attr->name);
  if (attr->kind == BD_ATTR_STRING) copy.string = bd_intern_z(ctx, attr->string);
  if (attr->kind == BD_ATTR_INTS) copy = bd_attr_ints(ctx, attr->name, attr->count, attr->ints);
  if (attr->kind == BD_ATTR_REALS) copy = bd_attr_reals(ctx, attr->name, attr->count, attr->reals);
  return copy;
}

bd_status bd_build(bd_ctx *ctx, bd_function *function, bd_op_kind kind, int in_count,
                   const bd_id *in, int attr_count, const bd_attr *attrs, bd_loc loc, bd_id *out) {
  const bd_op_info *info = bd_op_get_info(kind);
  assert(info->level == BD_LOGICAL);
  bd_op *op = bd_function_add_op(ctx, function, kind, in_count, in, info->out, NULL, loc);
  op->attr_count = attr_count;
  op->attrs = BD_NEW_ARRAY(ctx->arena, bd_attr, attr_count);
  for (int i = 0; i < attr_count; ++i)
    op->attrs[i] = copy_attr(ctx, &attrs[i]);
  bd_index_map map;
  bd_type types[BD_MAX_RESULTS];
  bd_status status = bd_op_infer(ctx, function, op, &map, types);
  if (status != BD_OK) {
    function->op_count--;
    return status;
  }
  for (int i = 0; i < op->out_count; ++i) {
    out[i] = bd_function_add_value(ctx, function, NULL, types[i]);
    op->out[i] = out[i];
    function->values[out[i]].producer = function->op_count - 1;
    function->values[out[i]].result = i;
  }
  return BD_OK;
}
