#include "planner/layer/gradient.h"
#include "ir/op_semantics.h"
#include "planner/layer/forms.h"
#include "planner/layer/hidden.h"
#include "planner/layer/op.h"
#include <math.h>

static bool is_sum(const bd_op *op) {
  return op->kind == BD_OP_ADD && op->group < 0;
}

static bool reads(const bd_op *op, bd_id value) {
  for (int k = 0; k < op->in_count; k++)
    if (op->in[k] == value) return true;
  return false;
}

// Whether an operand of a sum may be a gradient of the value: made for an op that reads it, or of
// unknown origin; `*known` counts the former.
static bool may_reach(const bd_layer_space *space, bd_id operand, bd_id value, int *known) {
  int producer = space->backward->values[operand].producer;
  int group = producer < 0 ? -1 : space->backward->ops[producer].group;
  if (group < 0) return true;
  ++*known;
  return reads(&space->forward->ops[group], value);
}

// The only value that the sum can be the gradient of, or BD_NO_ID.
static bd_id summed_value(const bd_layer_space *space, const bd_op *sum) {
  const bd_type *type = &space->backward->values[sum->out[0]].type;
  bd_id found = BD_NO_ID;
  for (bd_id v = 0; v < space->forward->value_count; v++) {
    int known = 0;
    if (space->is_weight[v] || space->sums[v].summands < 2 ||
        !bd_type_equal(&space->forward->values[v].type, type))
      continue;
    if (!may_reach(space, sum->in[0], v, &known) || !may_reach(space, sum->in[1], v, &known) ||
        !known)
      continue;
    if (found != BD_NO_ID) return BD_NO_ID;
    found = v;
  }
  return found;
}

// Gradients flow from the results back to parameters that want one.
static void find_flows(bd_ctx *ctx, bd_layer_space *space) {
  const bd_function *f = space->forward, *b = space->backward;
  bool *active = BD_NEW_ARRAY(ctx->arena, bool, f->value_count);
  space->flows = BD_NEW_ARRAY(ctx->arena, bool, f->value_count);
  for (int i = 0; i < b->result_count; i++)
    active[f->params[b->gradient_of[i]]] = true;
  for (int i = 0; i < f->op_count; i++) {
    const bd_op *op = &f->ops[i];
    bool any = false;
    for (int k = 0; k < op->in_count; k++)
      any = any || (active[op->in[k]] && bd_op_gives_gradient(op, k));
    active[op->out[0]] = any;
  }
  for (int i = 0; i < f->result_count; i++)
    space->flows[f->results[i]] = active[f->results[i]];
  for (int i = f->op_count - 1; i >= 0; i--)
    for (int k = 0; space->flows[f->ops[i].out[0]] && k < f->ops[i].in_count; k++)
      space->flows[f->ops[i].in[k]] |=
          active[f->ops[i].in[k]] && bd_op_gives_gradient(&f->ops[i], k);
}

static void find_sums(bd_ctx *ctx, bd_layer_space *space) {
  const bd_function *f = space->forward, *b = space->backward;
  space->sums = BD_NEW_ARRAY(ctx->arena, bd_layer_sums, f->value_count);
  space->is_sum = BD_NEW_ARRAY(ctx->arena, bool, b->op_count);
  for (int i = 0; i < f->op_count; i++)
    for (int k = 0; space->flows[f->ops[i].out[0]] && k < f->ops[i].in_count; k++)
      space->sums[f->ops[i].in[k]].summands += space->flows[f->ops[i].in[k]];
  for (int i = 0; i < f->result_count; i++)
    space->sums[f->results[i]].summands += space->flows[f->results[i]];
  for (int i = 0; i < b->op_count; i++) {
    bd_id value = is_sum(&b->ops[i]) ? summed_value(space, &b->ops[i]) : BD_NO_ID;
    if (value == BD_NO_ID) continue;
    bd_layer_sums *sums = &space->sums[value];
    if (!sums->ops) sums->ops = BD_NEW_ARRAY(ctx->arena, int, b->op_count);
    sums->ops[sums->count++] = i;
    space->is_sum[i] = true;
  }
}

void bd_layer_find_gradients(bd_ctx *ctx, bd_layer_space *space) {
  space->has_backward = BD_NEW_ARRAY(ctx->arena, bool, space->forward->op_count);
  for (int i = 0; i < space->backward->op_count; i++)
    if (space->backward->ops[i].group >= 0)
      space->has_backward[space->backward->ops[i].group] = true;
  find_flows(ctx, space);
  find_sums(ctx, space);
}

bool bd_layer_reads_gradient(const bd_layer_space *space, int op) {
  return space->has_backward[op];
}

bd_sharding bd_layer_gradient_home(const bd_layer_space *space, const bd_cluster_ops *cluster,
                                   const bd_layer_option *option, bd_id value) {
  if (!bd_layer_reads_gradient(space, space->forward->values[value].producer))
    return bd_layer_form(space, cluster, option, value);
  bd_sharding home = bd_layer_produced(space, cluster, option, value);
  for (int axis = 0; axis < BD_MAX_AXES; axis++)
    if (home.at[axis] < BD_REPLICATED) home.at[axis] = BD_REPLICATED;
  return home;
}

// Whether backward makes a gradient of the operand for this op: it is wanted, and not just that of
// the op's result, which an addition hands on as it is.
static bool hands_back(const bd_layer_space *space, int index, int operand) {
  const bd_function *f = space->forward, *b = space->backward;
  const bd_op *op = &f->ops[index];
  const bd_type *type = &f->values[op->in[operand]].type;
  int wanted = 0, made = 0;
  if (!space->flows[op->in[operand]] || !space->flows[op->out[0]]) return false;
  for (int k = 0; k < op->in_count; k++)
    wanted += space->flows[op->in[k]] && bd_type_equal(&f->values[op->in[k]].type, type);
  for (int i = 0; i < b->op_count; i++)
    for (int r = 0; b->ops[i].group == index && r < b->ops[i].out_count; r++)
      made += bd_type_equal(&b->values[b->ops[i].out[r]].type, type);
  return made >= wanted;
}

// Whether the gradient of an op's operand is that of its result.
static bool is_handed_on(const bd_layer_space *space, int index, int operand) {
  const bd_function *f = space->forward;
  const bd_op *op = &f->ops[index];
  return op->kind == BD_OP_ADD && space->flows[op->in[operand]] &&
         !space->is_weight[op->in[operand]] &&
         bd_type_equal(&f->values[op->in[operand]].type, &f->values[op->out[0]].type) &&
         !hands_back(space, index, operand);
}

double bd_layer_handed_share(const bd_layer_space *space, int index, int operand) {
  const bd_op *op = &space->forward->ops[index];
  int all = 0, alone = 0;
  if (!is_handed_on(space, index, operand)) return 1;
  for (int k = 0; k < op->in_count; k++) {
    bool handed = is_handed_on(space, index, k);
    all += handed;
    alone += handed && space->sums[op->in[k]].summands < 2;
  }
  if (!alone) return 1.0 / all;
  return space->sums[op->in[operand]].summands < 2 ? 1.0 / alone : 0;
}

// The op's operand whose gradient is that of its result, or BD_NO_ID.
static bd_id passes(const bd_layer_space *space, int index) {
  const bd_op *op = &space->forward->ops[index];
  for (int k = 0; k < op->in_count; k++)
    if (is_handed_on(space, index, k)) return op->in[k];
  return BD_NO_ID;
}

void bd_layer_find_passes(bd_ctx *ctx, bd_layer_space *space) {
  const bd_function *f = space->forward;
  space->passes_to = BD_NEW_ARRAY(ctx->arena, bd_id, f->value_count);
  space->is_passed = BD_NEW_ARRAY(ctx->arena, bool, f->value_count);
  for (bd_id v = 0; v < f->value_count; v++)
    space->passes_to[v] = BD_NO_ID;
  for (int i = 0; i < f->op_count; i++) {
    const bd_cluster_ops *c = &space->clusters[space->cluster_of_op[i]];
    bd_id v = i == c->ops[0] ? BD_NO_ID : passes(space, i);
    if (v == BD_NO_ID || f->values[v].producer < 0 || space->is_result[v] || space->consumers[v] ||
        space->sums[v].summands > 1)
      continue;
    bool first = f->values[v].producer == c->ops[0] && f->values[v].result == 0;
    bd_id to = first ? v : space->passes_to[v], own = f->ops[i].out[0];
    space->passes_to[own] = to;
    if (to != BD_NO_ID && (space->consumers[own] || space->is_result[own]))
      space->is_passed[to] = true;
  }
}

// How much of a sum's traffic over whole summands scattering one of them along the axis pays for.
static double paid_share(const bd_layer_space *space, int axis, double bytes) {
  const bd_cost_model *cost = &space->request->cost;
  int ranks = cost->mesh.size[axis];
  if (ranks == 1 || bytes <= 0) return 1;
  const bd_cut_product any = {INFINITY, cost->cluster->kernel_seconds};
  double scatter = bd_layer_exposed_seconds(space, &any, bd_cost_exchange(cost, axis, bytes));
  double moved = 3 * bytes * (1 - 1.0 / ranks) / cost->cluster->memory_bytes_per_second;
  return fmin(1, scatter / moved);
}

// Summands that an addition hands on lie in a form that is not known here.
static double even_seconds(const bd_layer_space *space, const bd_layer_sums *sums) {
  double seconds = 0;
  for (int i = 0; i < sums->count; i++)
    seconds += bd_layer_even_seconds(&space->request->cost, space->backward, space->forward,
                                     sums->ops[i], &space->backward_map[sums->ops[i]]);
  return seconds / sums->summands;
}

double bd_layer_sum_seconds(const bd_layer_space *space, int op, int operand,
                            const bd_sharding *gradient) {
  bd_id value = space->forward->ops[op].in[operand];
  const bd_layer_sums *sums = &space->sums[value];
  const bd_cost_model *cost = &space->request->cost;
  const bd_type *type = &space->forward->values[value].type;
  double seconds = 0, paid = 1;
  if (!sums->count) return 0;
  if (!hands_back(space, op, operand)) return even_seconds(space, sums);
  for (int i = 0; i < sums->count; i++) {
    const bd_index_map *map = &space->backward_map[sums->ops[i]];
    int8_t split[BD_MAX_AXES];
    for (int axis = 0; axis < BD_MAX_AXES; axis++)
      split[axis] = gradient->at[axis] >= 0 ? map->out[0][gradient->at[axis]] : -1;
    seconds += bd_layer_op_seconds(cost, space->backward, space->forward, sums->ops[i], map, split);
  }
  double bytes = bd_cost_local_bytes(cost, type, gradient);
  for (int axis = 0; axis < cost->mesh.axes; axis++) {
    if (gradient->at[axis] == BD_PARTIAL_SUM) paid = fmin(paid, paid_share(space, axis, bytes));
    if (gradient->at[axis] == BD_REPLICATED) seconds /= cost->mesh.size[axis];
  }
  return seconds * paid / sums->summands;
}

static double gradient_seconds(const bd_layer_space *space, int op) {
  return space->is_sum[op] ? 0
                           : bd_layer_even_seconds(&space->request->cost, space->backward,
                                                   space->forward, op, &space->backward_map[op]);
}

double bd_layer_even_backward_seconds(const bd_layer_space *space, int group) {
  double seconds = 0;
  for (int i = 0; i < space->backward->op_count; i++)
    if (space->backward->ops[i].group == group) seconds += gradient_seconds(space, i);
  return seconds;
}

double bd_layer_least_backward_seconds(const bd_layer_space *space) {
  double seconds = 0;
  for (int i = 0; i < space->backward->op_count; i++)
    seconds += gradient_seconds(space, i);
  return seconds;
}
