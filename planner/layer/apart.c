// A relaxation of the layer's problem: every op is split as suits it best, whatever its neighbours
// do.
#include "planner/layer/gradient.h"
#include "planner/layer/hidden.h"
#include "planner/layer/layer.h"
#include "planner/layer/op.h"
#include "planner/layer/reading.h"
#include "planner/layer/reshard.h"
#include "planner/layer/weight.h"
#include <math.h>
#include <string.h>

// Along every axis over which a value is made partial, no less moves than is left once all other
// axes have scattered it; nothing reads partial sums.
static double summing_seconds(const bd_cost_model *cost, const bd_type *type,
                              const bd_sharding *made) {
  double seconds = 0, bytes = 0;
  int parts = 1;
  for (int axis = 0; axis < cost->mesh.axes; axis++)
    if (made->at[axis] == BD_PARTIAL_SUM) parts *= cost->mesh.size[axis];
  if (parts > 1) bytes = bd_cost_local_bytes(cost, type, made) / parts;
  for (int axis = 0; axis < cost->mesh.axes && bytes > 0; axis++) {
    double whole = bytes * cost->mesh.size[axis];
    if (made->at[axis] == BD_PARTIAL_SUM)
      seconds += fmin(bd_cost_exchange(cost, axis, whole), bd_cost_all_reduce(cost, axis, whole));
  }
  return seconds;
}

// An op and what it reads of values from elsewhere.
typedef struct apart {
  bd_layer_space *space;
  int op, reading_count;
  bd_reading readings[BD_MAX_OPERANDS];
} apart;

static apart take_apart(bd_layer_space *space, int index) {
  const bd_op *op = &space->forward->ops[index];
  apart out = {.space = space, .op = index};
  for (int k = 0; k < op->in_count; k++) {
    int maker = space->forward->values[op->in[k]].producer;
    bool own = maker >= 0 && space->cluster_of_op[maker] == space->cluster_of_op[index];
    if (!own && !space->is_weight[op->in[k]])
      out.readings[out.reading_count++] = bd_layer_reading(space, index, k);
  }
  return out;
}

// The op's results, and the gradients that it hands back to what it reads; readers of a value share
// what brings its gradient home.
static double sums_seconds(const apart *a, const int8_t split[BD_MAX_AXES]) {
  bd_layer_space *space = a->space;
  int index = a->op;
  const bd_cost_model *cost = &space->request->cost;
  const bd_value *values = space->forward->values;
  const bd_op *op = &space->forward->ops[index];
  double seconds = 0;
  for (int r = 0; r < op->out_count; r++) {
    bd_sharding made = bd_split_result(&space->map[index], &cost->mesh, split, r);
    double sum = summing_seconds(cost, &values[op->out[r]].type, &made);
    seconds += bd_layer_exposed_sum(space, op->out[r], false, &made, sum);
  }
  for (int i = 0; i < a->reading_count; i++) {
    const bd_reading *r = &a->readings[i];
    bd_sharding made = bd_layer_operand_gradient(space, index, r->operand, split);
    seconds += bd_layer_sum_seconds(space, index, r->operand, &made);
    if (!r->flows || r->may_stay_partial) continue;
    double sum = summing_seconds(cost, &values[r->value].type, &made);
    seconds += bd_layer_exposed_sum(space, r->value, true, &made, sum) / space->consumers[r->value];
  }
  return seconds;
}

// The least over the ways to spread the op's weights.
static double weight_seconds(bd_layer_space *space, int index, const int8_t split[BD_MAX_AXES]) {
  unsigned possible = bd_layer_op_spread_axes(space, index, split);
  bd_layer_option option = {.spread = BD_SPREAD_STATES};
  double least = bd_layer_weight_cost(space, index, split, &option).seconds;
  for (int spread = BD_SPREAD_GRADIENTS; spread <= BD_SPREAD_WEIGHTS; spread++)
    for (unsigned mask = 1; mask <= possible; mask++) {
      bool one = (mask & (mask - 1)) == 0; // accumulators are cut along one axis
      if (mask & ~possible || (spread == BD_SPREAD_GRADIENTS && !one)) continue;
      option.spread = (bd_spread)spread;
      option.spread_axes = (uint8_t)mask;
      least = fmin(least, bd_layer_weight_cost(space, index, split, &option).seconds);
    }
  return least;
}

// Lowers `*least` to what the op takes under any way to go on with a split from an axis on.
static void try_axis(const apart *a, int axis, int8_t split[BD_MAX_AXES], double *least) {
  bd_layer_space *space = a->space;
  const bd_cost_model *cost = &space->request->cost;
  const bd_index_map *map = &space->map[a->op];
  if (axis == cost->mesh.axes) {
    if (!bd_split_valid(map, &cost->mesh, cost->micro_batch, split)) return;
    const bd_op_work *work = bd_layer_work(space, a->op, split);
    double seconds = work->forward + work->backward;
    if (seconds < *least) seconds += sums_seconds(a, split);
    if (seconds < *least) *least = fmin(*least, seconds + weight_seconds(space, a->op, split));
    return;
  }
  for (int loop = -1; loop < (cost->mesh.size[axis] > 1 ? map->loops : 0); loop++) {
    if (loop >= 0 && !bd_split_allowed(map, &cost->mesh, cost->micro_batch, axis, loop)) continue;
    split[axis] = (int8_t)loop;
    try_axis(a, axis + 1, split, least);
  }
  split[axis] = -1;
}

// Whether a split may cost an op more than its share of the work.
static bool is_plain(const bd_layer_space *space, const bd_op *op) {
  bool weights = false;
  for (int k = 0; k < op->in_count; k++)
    weights = weights || space->is_weight[op->in[k]];
  return !weights && bd_op_get_info(op->kind)->traits & BD_POINTWISE;
}

bd_status bd_layer_least_apart(bd_ctx *ctx, const bd_layer_request *request, double *out_seconds) {
  bd_layer_space space;
  BD_TRY(bd_layer_space_read(ctx, request, &space));
  space.tables = ctx->arena;
  space.reshards = bd_reshards_create(space.tables, space.forward);
  *out_seconds = bd_layer_even_backward_seconds(&space, -1);
  for (int i = 0; i < space.forward->op_count; i++) {
    double even = bd_layer_even_seconds(&request->cost, space.forward, i, &space.map[i]) +
                  bd_layer_even_backward_seconds(&space, i);
    int8_t split[BD_MAX_AXES];
    double least = INFINITY;
    memset(split, -1, sizeof split);
    if (!is_plain(&space, &space.forward->ops[i])) {
      apart a = take_apart(&space, i);
      try_axis(&a, 0, split, &least);
    }
    *out_seconds += isfinite(least) ? least : even;
  }
  return BD_OK;
}
