// A relaxation of the layer's problem: every op is split as suits it best, whatever its neighbours
// do.
#include "planner/layer/gradient.h"
#include "planner/layer/layer.h"
#include "planner/layer/op.h"
#include "planner/layer/reshard.h"
#include "planner/layer/weight.h"
#include <math.h>
#include <string.h>

// Partial sums are summed before anything reads them: along every axis no less moves than is left
// once all other axes have scattered them.
static double summing_seconds(const bd_layer_space *space, int index,
                              const int8_t split[BD_MAX_AXES]) {
  const bd_cost_model *cost = &space->request->cost;
  const bd_op *op = &space->forward->ops[index];
  double seconds = 0;
  for (int r = 0; r < op->out_count; r++) {
    bd_sharding made = bd_split_result(&space->map[index], &cost->mesh, split, r);
    double bytes = 0;
    int parts = 1;
    for (int axis = 0; axis < cost->mesh.axes; axis++)
      if (made.at[axis] == BD_PARTIAL_SUM) parts *= cost->mesh.size[axis];
    if (parts > 1)
      bytes = bd_cost_local_bytes(cost, &space->forward->values[op->out[r]].type, &made) / parts;
    for (int axis = 0; axis < cost->mesh.axes && bytes > 0; axis++) {
      double whole = bytes * cost->mesh.size[axis];
      if (made.at[axis] == BD_PARTIAL_SUM)
        seconds += fmin(bd_cost_exchange(cost, axis, whole), bd_cost_all_reduce(cost, axis, whole));
    }
  }
  return seconds;
}

// The least over the ways to spread the op's weights.
static double weight_seconds(bd_layer_space *space, int index, const int8_t split[BD_MAX_AXES]) {
  unsigned axes = 1u << space->request->cost.mesh.axes;
  bd_layer_option option = {.spread = BD_SPREAD_STATES};
  double least = bd_layer_weight_cost(space, index, split, &option).seconds;
  for (int spread = BD_SPREAD_GRADIENTS; spread <= BD_SPREAD_WEIGHTS; spread++)
    for (unsigned mask = 1; mask < axes; mask++) {
      option.spread = (bd_spread)spread;
      option.spread_axes = (uint8_t)mask;
      least = fmin(least, bd_layer_weight_cost(space, index, split, &option).seconds);
    }
  return least;
}

// Lowers `*least` to what the op takes under any way to go on with a split from an axis on.
static void try_axis(bd_layer_space *space, int index, int axis, int8_t split[BD_MAX_AXES],
                     double *least) {
  const bd_cost_model *cost = &space->request->cost;
  const bd_index_map *map = &space->map[index];
  if (axis == cost->mesh.axes) {
    if (!bd_split_valid(map, &cost->mesh, cost->micro_batch, split)) return;
    const bd_op_work *work = bd_layer_work(space, index, split);
    double seconds = work->forward + work->backward + summing_seconds(space, index, split);
    if (seconds < *least) *least = fmin(*least, seconds + weight_seconds(space, index, split));
    return;
  }
  for (int loop = -1; loop < (cost->mesh.size[axis] > 1 ? map->loops : 0); loop++) {
    if (loop >= 0 && !bd_split_allowed(map, &cost->mesh, cost->micro_batch, axis, loop)) continue;
    split[axis] = (int8_t)loop;
    try_axis(space, index, axis + 1, split, least);
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
    if (!is_plain(&space, &space.forward->ops[i])) try_axis(&space, i, 0, split, &least);
    *out_seconds += isfinite(least) ? least : even;
  }
  return BD_OK;
}
