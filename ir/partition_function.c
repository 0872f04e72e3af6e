// One function of the sharded stage made explicit: every op reads what its split needs.
#include "ir/balance.h"
#include "ir/partition_balance.h"
#include "ir/pool.h"
#include <assert.h>
#include <string.h>

typedef struct partition {
  bd_versions versions;
  const bd_function *source;
  const bd_function *forward;  // of a backward function
  bool *accumulated;           // per source value: a weight's gradient with a form of its own
  const bd_sharding **settled; // per source value: of its accumulators, for a weight's gradient
  bd_chunks *chunks;           // per source value
  const bool *pooled;          // per source value: ir/pool.h
} partition;

static bd_id add_value(partition *p, const char *name, bd_type type, const bd_sharding *sharding) {
  bd_id id = bd_function_add_value(p->versions.ctx, p->versions.function, name, type);
  p->versions.function->values[id].sharding = *sharding;
  p->versions.function->values[id].has_sharding = true;
  return id;
}

static void add_params(partition *p) {
  bd_function *to = p->versions.function;
  for (int i = 0; i < p->source->param_count; ++i) {
    bd_id source = p->source->params[i];
    const bd_value *value = &p->source->values[source];
    bd_id id = bd_function_add_param_like(p->versions.ctx, to, value);
    to->values[id].has_sharding = true;
    to->is_weight[i] = p->source->is_weight[i];
    bd_versions_add(&p->versions, source, 0, id);
  }
  to->restore_count = p->source->restore_count;
}

// Sums, copies and casts of gradients, which no forward op governs, are formed in whatever sharding
// their terms share.
static bool is_free(const partition *p, const bd_op *op) {
  if (p->source->role != BD_ROLE_BACKWARD || op->recomputed || op->group >= 0) return false;
  if (op->kind == BD_OP_SCALE) return true;
  if (op->kind == BD_OP_CAST) return bd_dtype_is_float(p->source->values[op->out[0]].type.dtype);
  const bd_value *a = &p->source->values[op->in[0]],
                 *b = &p->source->values[op->in[op->in_count - 1]];
  return op->kind == BD_OP_ADD && bd_type_equal(&a->type, &b->type);
}

static bool widens(const partition *p, const bd_op *op) {
  return op->kind == BD_OP_CAST && bd_dtype_bytes(p->source->values[op->in[0]].type.dtype) <
                                       bd_dtype_bytes(p->source->values[op->out[0]].type.dtype);
}

// What the first op that reads the value needs of it, where a split tells.
static bd_status find_need(const partition *p, bd_id value, bd_sharding *out, bool *found) {
  *found = false;
  for (int i = 0; i < p->source->op_count; ++i) {
    const bd_op *op = &p->source->ops[i];
    int k = bd_ids_find(op->in, op->in_count, value);
    if (k < 0) continue;
    if (is_free(p, op)) return BD_OK;
    bd_index_map map;
    bd_type types[BD_MAX_RESULTS];
    BD_TRY(bd_op_infer(p->versions.ctx, p->source, op, &map, types));
    *out = bd_split_operand(&map, &p->versions.module->mesh, op->split, k);
    *found = true;
    return BD_OK;
  }
  return BD_OK;
}

// The sharding in which a free op's result is formed. What is exchanged for the reader of a wider
// copy is so before it is made: fewer bytes move.
static bd_status choose_free(const partition *p, const bd_op *op, bd_sharding *out) {
  const bd_sharding *terms[2];
  bool found = false;
  if (widens(p, op)) BD_TRY(find_need(p, op->out[0], out, &found));
  if (found) return BD_OK;
  for (int i = 0; i < op->in_count; ++i) {
    bd_id id = bd_versions_first(&p->versions, op->in[i], 0);
    terms[i] = &p->versions.function->values[id].sharding;
  }
  *out =
      bd_sum_sharding(p->versions.module, &p->source->values[op->out[0]].type, op->in_count, terms);
  return BD_OK;
}

// The loops that produce a given sharding of a pointwise result.
static void split_from_result(const bd_index_map *map, const bd_sharding *sharding,
                              int8_t split[BD_MAX_AXES]) {
  for (int axis = 0; axis < BD_MAX_AXES; ++axis)
    split[axis] = sharding->at[axis] >= 0 ? map->out[0][sharding->at[axis]] : -1;
}

bool bd_op_keeps_sums(bd_op_kind kind) {
  return kind == BD_OP_SLICE || kind == BD_OP_PAD || kind == BD_OP_RESHAPE ||
         kind == BD_OP_PERMUTE || kind == BD_OP_REDUCE_SUM || kind == BD_OP_SCALE ||
         kind == BD_OP_NEG;
}

// Lets the partial sums of gradients pass through such ops, so that weights behind them are not
// reduced in every micro-batch.
static void pass_partial_sums(partition *p, const bd_op *op, bd_sharding *need, bd_sharding *made) {
  if (p->source->role != BD_ROLE_BACKWARD || op->recomputed || !bd_op_keeps_sums(op->kind)) return;
  bd_id id = bd_versions_first(&p->versions, op->in[0], 0);
  const bd_sharding *have = &p->versions.function->values[id].sharding;
  for (int axis = 0; axis < BD_MAX_AXES; ++axis)
    if (have->at[axis] == BD_PARTIAL_SUM && op->split[axis] < 0)
      need->at[axis] = made->at[axis] = BD_PARTIAL_SUM;
}

// What the op reads of each operand and makes of each result, and its split.
static bd_status choose_shardings(partition *p, const bd_op *op, const bd_index_map *map,
                                  bd_sharding need[BD_MAX_OPERANDS],
                                  bd_sharding made[BD_MAX_RESULTS], int8_t split[BD_MAX_AXES]) {
  const bd_mesh *mesh = &p->versions.module->mesh;
  if (is_free(p, op)) {
    BD_TRY(choose_free(p, op, &made[0]));
    need[0] = need[1] = made[0];
    split_from_result(map, &made[0], split);
    return BD_OK;
  }
  for (int axis = 0; axis < BD_MAX_AXES; ++axis)
    split[axis] = op->split[axis];
  for (int i = 0; i < op->in_count; ++i)
    need[i] = bd_split_operand(map, mesh, split, i);
  for (int i = 0; i < op->out_count; ++i)
    made[i] = bd_split_result(map, mesh, split, i);
  pass_partial_sums(p, op, need, made);
  return BD_OK;
}

// Whether a value lies, or settles, with the samples that an op has of it, if it counts over those
// of a rank. Plans see to it.
static bool keeps_pool(const partition *p, bd_id source, const bd_sharding *have,
                       const bd_sharding *need) {
  const bd_mesh *mesh = &p->versions.module->mesh;
  const bd_type *type = &p->source->values[source].type;
  return !p->pooled[source] || bd_sample_axes(mesh, type, have) == bd_sample_axes(mesh, type, need);
}

// A result under its own name, and under its form when it has one. The value that settles keeps the
// name.
static bd_status add_result_versions(partition *p, bd_id source, bd_id made, bd_loc loc) {
  const bd_value *value = &p->source->values[source];
  bd_function *to = p->versions.function;
  bool settles = value->has_sharding && !p->accumulated[source];
  if (!settles || bd_sharding_equal(&to->values[made].sharding, &value->sharding)) {
    bd_versions_add(&p->versions, source, 0, made);
    return BD_OK;
  }
  assert(keeps_pool(p, source, &to->values[made].sharding, &value->sharding));
  bd_id settled;
  BD_TRY(
      bd_reshard(p->versions.ctx, p->versions.module, to, made, &value->sharding, loc, &settled));
  bd_function_rename(p->versions.ctx, to, settled, value->name);
  bd_versions_add(&p->versions, source, 0, settled);
  return BD_OK;
}

// Accumulators take the form of their weight, or their own, on the axes where the gradient is no
// partial sum or they are cut.
static bd_sharding gradient_sharding(const bd_sharding *form, const bd_sharding *made) {
  bd_sharding sharding = *form;
  for (int axis = 0; axis < BD_MAX_AXES; ++axis)
    if (form->at[axis] == BD_REPLICATED && made->at[axis] == BD_PARTIAL_SUM)
      sharding.at[axis] = BD_PARTIAL_SUM;
  return sharding;
}

// A weight's gradient that is scattered to its accumulators goes there at once, so that the whole
// one is not held until the function ends.
static bd_status settle_gradient(partition *p, bd_id source, bd_id made, bd_loc loc) {
  if (!p->settled[source]) return BD_OK;
  bd_sharding form =
      gradient_sharding(p->settled[source], &p->versions.function->values[made].sharding);
  bd_id settled;
  return bd_versions_get(&p->versions, source, 0, &form, loc, &settled);
}

// What a result is called in the sharding in which it is made.
static const char *name_of_made(const partition *p, bd_id source, const bd_sharding *made) {
  const bd_value *value = &p->source->values[source];
  bool moves =
      value->has_sharding && !p->accumulated[source] && !bd_sharding_equal(made, &value->sharding);
  return moves ? bd_intern_f(p->versions.ctx, "%s.part", value->name) : value->name;
}

// Whether a value that attention makes is read by nothing but gradients of it that are shared among
// ranks in the same way, which read chunks of it.
static bool is_read_in_chunks(const partition *p, const bd_op *by, bd_id value) {
  const bd_function *f = p->source;
  for (int i = 0; i < f->op_count; ++i) {
    const bd_op *op = &f->ops[i];
    if (bd_ids_find(op->in, op->in_count, value) < 0) continue;
    if (!bd_op_is_attention_grad(op->kind) || !bd_op_int(op, BD_BALANCED_ATTR, 0) ||
        op->in[BD_ATTENTION_GRAD_LSE] != value || op->group != by->group ||
        memcmp(op->split, by->split, sizeof op->split) != 0)
      return false;
  }
  return bd_ids_find(f->results, f->result_count, value) < 0 &&
         bd_ids_find(f->saves, f->save_count, value) < 0;
}

// Its first result is made whole in any case, which computing attention again is priced with.
static bd_status partition_balanced(partition *p, const bd_balanced *b) {
  BD_TRY(bd_balance_op(&p->versions, p->chunks, b));
  for (int i = 0; i < b->op->out_count; ++i) {
    bd_id source = b->op->out[i];
    bool statistic = bd_op_is_attention(b->op->kind) && i == 1;
    if (statistic && is_read_in_chunks(p, b->op, source)) continue;
    bd_id made = add_value(p, name_of_made(p, source, &b->made[i]), b->types[i], &b->made[i]);
    bd_balance_result(&p->versions, p->chunks, b, i, made);
    BD_TRY(add_result_versions(p, source, made, b->op->loc));
    BD_TRY(settle_gradient(p, source, made, b->op->loc));
  }
  return BD_OK;
}

static bd_status get_operand(partition *p, const bd_op *op, int operand, const bd_sharding *need,
                             bd_id *out) {
  bd_id source = op->in[operand], first = bd_versions_first(&p->versions, source, 0);
  assert(keeps_pool(p, source, &p->versions.function->values[first].sharding, need));
  (void)first;
  return bd_versions_get(&p->versions, source, 0, need, op->loc, out);
}

static bd_status partition_op(partition *p, const bd_op *op) {
  bd_ctx *ctx = p->versions.ctx;
  bd_index_map map;
  bd_type types[BD_MAX_RESULTS];
  BD_TRY(bd_op_infer(ctx, p->source, op, &map, types));
  bd_sharding need[BD_MAX_OPERANDS], made[BD_MAX_RESULTS];
  int8_t split[BD_MAX_AXES];
  BD_TRY(choose_shardings(p, op, &map, need, made, split));
  bd_balanced balanced = {op, &map, types, need, made, split, 0};
  if (bd_op_int(op, BD_BALANCED_ATTR, 0))
    balanced.chunk = bd_balance_chunk(op, &map, &p->versions.module->mesh, split);
  if (balanced.chunk) return partition_balanced(p, &balanced);
  bd_id in[BD_MAX_OPERANDS], out[BD_MAX_RESULTS];
  for (int i = 0; i < op->in_count; ++i)
    BD_TRY(get_operand(p, op, i, &need[i], &in[i]));
  for (int i = 0; i < op->out_count; ++i)
    out[i] = add_value(p, name_of_made(p, op->out[i], &made[i]), p->source->values[op->out[i]].type,
                       &made[i]);
  bd_function *to = p->versions.function;
  bd_op *copy =
      bd_function_add_op(ctx, to, op->kind, op->in_count, in, op->out_count, out, op->loc);
  copy->attr_count = op->attr_count;
  copy->attrs = op->attrs;
  copy->recomputed = op->recomputed;
  copy->has_split = true;
  for (int axis = 0; axis < BD_MAX_AXES; ++axis)
    copy->split[axis] = split[axis];
  for (int i = 0; i < op->out_count; ++i) {
    BD_TRY(add_result_versions(p, op->out[i], out[i], op->loc));
    BD_TRY(settle_gradient(p, op->out[i], out[i], op->loc));
  }
  return BD_OK;
}

// Appends a copy of `id`: a value of its own storage, made by a kernel.
static bd_id add_copy(partition *p, bd_id id, bd_loc loc) {
  bd_ctx *ctx = p->versions.ctx;
  bd_function *to = p->versions.function;
  bd_value value = to->values[id];
  bd_id copy = add_value(p, NULL, value.type, &value.sharding);
  bd_op *op = bd_function_add_op(ctx, to, BD_OP_SCALE, 1, &id, 1, &copy, loc);
  bd_op_set_attr(ctx, op, bd_attr_real(ctx, "value", 1));
  // Pointwise loops follow the result's dimensions.
  for (int axis = 0; axis < BD_MAX_AXES; ++axis)
    op->split[axis] = value.sharding.at[axis] >= 0 ? value.sharding.at[axis] : -1;
  op->has_split = true;
  return copy;
}

static bool can_accumulate(const bd_op *op) {
  bool library = (bd_op_get_info(op->kind)->traits & BD_LIBRARY) != 0;
  return !library || op->kind == BD_OP_CONTRACT || op->kind == BD_OP_EMBED_DW ||
         op->kind == BD_OP_CONV_DW || op->kind == BD_OP_GROUPED_CONTRACT_DW;
}

static bool is_read(const bd_function *function, bd_id id) {
  for (int i = 0; i < function->op_count; ++i)
    if (bd_ids_find(function->ops[i].in, function->ops[i].in_count, id) >= 0) return true;
  return false;
}

static bool is_result(const bd_function *function, bd_id id) {
  return bd_ids_find(function->results, function->result_count, id) >= 0;
}

static bd_status add_backward_result(partition *p, int index, bool weight) {
  bd_function *to = p->versions.function;
  bd_id source = p->source->results[index], id;
  int param = p->source->gradient_of[index];
  bd_sharding form = p->accumulated[source]
                         ? p->source->values[source].sharding
                         : p->forward->values[p->forward->params[param]].sharding;
  bd_id made = bd_versions_first(&p->versions, source, 0);
  if (weight) form = gradient_sharding(&form, &to->values[made].sharding);
  bd_loc loc = p->source->loc;
  BD_TRY(bd_versions_get(&p->versions, source, 0, &form, loc, &id));
  int producer = to->values[id].producer;
  bool copy = producer < 0 || is_result(to, id);
  if (weight && !copy) copy = !can_accumulate(&to->ops[producer]) || is_read(to, id);
  if (copy) id = add_copy(p, id, loc);
  bd_function_add_result(p->versions.ctx, to, id);
  to->gradient_of[index] = param;
  return BD_OK;
}

static bd_status add_forward_result(partition *p, int index) {
  bd_function *to = p->versions.function;
  bd_id id = bd_versions_first(&p->versions, p->source->results[index], 0);
  if (to->values[id].producer < 0 || is_result(to, id)) id = add_copy(p, id, p->source->loc);
  bd_function_add_result(p->versions.ctx, to, id);
  return BD_OK;
}

// Where each value lives follows from its role; offsets come with placement.
static void set_segments(partition *p) {
  bd_function *f = p->versions.function;
  for (bd_id v = 0; v < f->value_count; ++v)
    f->values[v].segment = BD_SEGMENT_WORKSPACE;
  for (int i = 0; i < f->save_count; ++i)
    f->values[f->saves[i]].segment = BD_SEGMENT_TAPE;
  for (int i = 0; i < f->param_count; ++i)
    f->values[f->params[i]].segment = f->is_weight[i] ? BD_SEGMENT_WEIGHTS : BD_SEGMENT_BOUNDARY;
  for (int i = 0; i < f->result_count; ++i)
    f->values[f->results[i]].segment = BD_SEGMENT_BOUNDARY;
  if (f->role != BD_ROLE_BACKWARD) return;
  for (int i = 0; i < f->result_count; ++i)
    if (p->forward->is_weight[f->gradient_of[i]])
      f->values[f->results[i]].segment = BD_SEGMENT_GRADIENTS;
  for (int i = 0; i < f->restore_count; ++i) {
    const bd_function *forward = p->forward;
    bd_id saved = forward->saves[i];
    bool in_main = forward->values[saved].producer < 0 || is_result(forward, saved);
    if (!in_main) f->values[f->params[i]].segment = BD_SEGMENT_TAPE;
  }
}

static bd_status add_results(partition *p) {
  const bd_function *source = p->source;
  if (source->role != BD_ROLE_BACKWARD) {
    for (int i = 0; i < source->result_count; ++i)
      BD_TRY(add_forward_result(p, i));
    for (int i = 0; i < source->save_count; ++i)
      bd_function_add_save(p->versions.ctx, p->versions.function,
                           bd_versions_first(&p->versions, source->saves[i], 0));
    return BD_OK;
  }
  for (int i = 0; i < source->result_count; ++i)
    BD_TRY(add_backward_result(p, i, p->forward->is_weight[source->gradient_of[i]]));
  return BD_OK;
}

// Gradients of weights, and the form of their accumulators: their own, or that of the weight.
static void find_accumulated(partition *p) {
  const bd_function *f = p->source;
  p->accumulated = BD_NEW_ARRAY(p->versions.ctx->arena, bool, f->value_count);
  p->settled = BD_NEW_ARRAY(p->versions.ctx->arena, const bd_sharding *, f->value_count);
  for (int i = 0; f->role == BD_ROLE_BACKWARD && i < f->result_count; ++i) {
    const bd_value *value = &f->values[f->results[i]];
    bool made = value->producer >= 0 && !f->ops[value->producer].recomputed;
    bool weight = p->forward->is_weight[f->gradient_of[i]];
    p->accumulated[f->results[i]] = made && value->has_sharding && weight;
    if (made && weight)
      p->settled[f->results[i]] =
          value->has_sharding ? &value->sharding
                              : &p->forward->values[p->forward->params[f->gradient_of[i]]].sharding;
  }
}

bd_status bd_partition_function(bd_ctx *ctx, const bd_module *sharded, const bd_function *function,
                                bd_function **out_spmd) {
  bd_function *to = bd_function_create(ctx, function->name);
  to->role = function->role;
  to->peer = function->peer;
  to->loc = function->loc;
  partition p = {.source = function};
  p.versions = (bd_versions){.ctx = ctx, .module = sharded, .function = to};
  p.versions.of = BD_NEW_ARRAY(ctx->arena, bd_version *, function->value_count);
  if (function->role == BD_ROLE_BACKWARD) p.forward = bd_module_find(sharded, function->peer);
  assert(function->role != BD_ROLE_BACKWARD || p.forward);
  find_accumulated(&p);
  p.pooled = bd_pooled_values(ctx, function, p.forward);
  p.chunks = BD_NEW_ARRAY(ctx->arena, bd_chunks, function->value_count);
  for (bd_id v = 0; v < function->value_count; ++v)
    p.chunks[v] = (bd_chunks){{BD_NO_ID, BD_NO_ID}, -1};
  add_params(&p);
  for (int i = 0; i < function->op_count; ++i)
    BD_TRY(partition_op(&p, &function->ops[i]));
  BD_TRY(add_results(&p));
  set_segments(&p);
  bd_make_names_unique(ctx, to);
  *out_spmd = to;
  return BD_OK;
}
