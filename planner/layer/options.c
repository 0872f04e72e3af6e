#include "planner/layer/options.h"
#include "planner/constraints/option.h"
#include "planner/layer/weight.h"
#include <math.h>
#include <string.h>

static bool scatter_allowed(const bd_layer_space *space, bd_id value, int axis, int dim,
                            const bd_sharding *produced) {
  const bd_type *type = &space->forward->values[value].type;
  const bd_mesh *mesh = &space->request->cost.mesh;
  if (space->pooled[value] && type->dims[dim] == BD_DIM_BATCH) return false;
  if (bd_extent(type->dims[dim], space->request->cost.micro_batch) % mesh->size[axis]) return false;
  for (int a = 0; a < mesh->axes; a++)
    if (produced->at[a] == dim) return false;
  return true;
}

typedef struct enumeration {
  bd_layer_space *space;
  bd_layer_limit *limit;
  bd_cluster_ops *cluster;
  bd_layer_option current;
  int capacity;
} enumeration;

static void append_option(bd_ctx *ctx, enumeration *e) {
  bd_cluster_ops *c = e->cluster;
  if (c->option_count == e->capacity) {
    int wanted = e->capacity ? 2 * e->capacity : 32;
    c->options = bd_arena_grow(ctx->arena, c->options, (size_t)c->option_count, (size_t)wanted,
                               sizeof *c->options);
    e->capacity = wanted;
  }
  c->options[c->option_count++] = e->current;
}

static void add_keeps(bd_ctx *ctx, enumeration *e) {
  const bd_cluster_ops *c = e->cluster;
  const bd_layer_request *request = e->space->request;
  for (int kept = c->needed_count; kept >= 0; kept--) {
    if (request->recompute == 0 && kept < c->needed_count) continue;
    if (request->recompute == 1 && kept > 0) continue;
    e->current.kept = (int8_t)kept;
    if (!c->impossible && !bd_constraints_allow_option(e->space, c, &e->current)) continue;
    append_option(ctx, e);
    if (!kept || !request->aside || request->cost.cluster->node.host_bytes_per_second <= 0)
      continue;
    e->current.how = BD_KEPT_OFFLOADED;
    append_option(ctx, e);
    e->current.how = BD_KEPT_WHOLE;
  }
}

// Whether a request leaves a spread over `axes`, some of the `possible` ones, open. Accumulators
// are cut along one axis; where all weights are to be spread, that is as far as it goes.
static bool spread_wanted(const bd_layer_request *request, bd_spread spread, unsigned axes,
                          unsigned possible) {
  bool allowed[BD_MAX_ZERO + 1], one = (axes & (axes - 1)) == 0;
  for (int stage = 0; stage <= BD_MAX_ZERO; stage++)
    allowed[stage] = bd_constraints_allow_zero(request->constraints, request->zero, stage);
  bool states = allowed[0] || allowed[1];
  if (spread == BD_SPREAD_STATES) return axes == 0 && (states || !possible);
  if (axes == 0) return false;
  if (spread == BD_SPREAD_GRADIENTS) return one && allowed[2];
  return allowed[3] && (states || allowed[2] || axes == possible);
}

// Whether the splits alone take too long.
static bool is_beyond(enumeration *e) {
  bd_layer_limit *limit = e->limit;
  if (!limit) return false;
  double seconds =
      bd_layer_apart_with(e->space, limit->apart, e->cluster, &e->current, limit->seconds);
  if (seconds < limit->seconds) return false;
  limit->left_out = fmin(limit->left_out, seconds);
  return true;
}

static void add_option(bd_ctx *ctx, enumeration *e) {
  const bd_layer_request *request = e->space->request;
  if (!bd_split_valid(&e->space->map[e->cluster->ops[0]], &request->cost.mesh,
                      request->cost.micro_batch, e->current.split) ||
      is_beyond(e))
    return;
  unsigned possible = bd_layer_spread_axes(e->space, e->cluster, &e->current);
  for (int spread = BD_SPREAD_STATES; spread <= BD_SPREAD_WEIGHTS; spread++)
    for (unsigned axes = 0; axes <= possible; axes++) {
      if ((axes & ~possible) || !spread_wanted(request, (bd_spread)spread, axes, possible))
        continue;
      e->current.spread = (bd_spread)spread;
      e->current.spread_axes = (uint8_t)axes;
      add_keeps(ctx, e);
    }
  e->current.spread = BD_SPREAD_STATES;
  e->current.spread_axes = 0;
}

static void enumerate_axis(bd_ctx *ctx, enumeration *e, int axis) {
  const bd_layer_space *space = e->space;
  const bd_layer_request *request = space->request;
  int op = e->cluster->ops[0];
  const bd_index_map *map = &space->map[op];
  if (axis == request->cost.mesh.axes) {
    add_option(ctx, e);
    return;
  }
  bd_id result = space->forward->ops[op].out[0];
  int rank = space->forward->values[result].type.rank;
  for (int loop = -1; loop < (request->cost.mesh.size[axis] > 1 ? map->loops : 0); loop++) {
    if (loop >= 0 &&
        !bd_split_allowed(map, &request->cost.mesh, request->cost.micro_batch, axis, loop))
      continue;
    e->current.split[axis] = (int8_t)loop;
    bd_sharding produced = bd_split_result(map, &request->cost.mesh, e->current.split, 0);
    for (int dim = -1; dim < rank; dim++) {
      if (dim >= 0 && (produced.at[axis] != BD_PARTIAL_SUM ||
                       !scatter_allowed(space, result, axis, dim, &produced)))
        continue;
      e->current.scatter[axis] = (int8_t)dim;
      enumerate_axis(ctx, e, axis + 1);
    }
    e->current.scatter[axis] = -1;
  }
  e->current.split[axis] = -1;
}

void bd_layer_space_enumerate(bd_ctx *ctx, bd_layer_space *space, bd_layer_limit *limit) {
  for (int c = 0; c < space->cluster_count; c++) {
    enumeration e = {.space = space, .limit = limit, .cluster = &space->clusters[c]};
    memset(e.current.split, -1, sizeof e.current.split);
    memset(e.current.scatter, -1, sizeof e.current.scatter);
    enumerate_axis(ctx, &e, 0);
    if (e.cluster->option_count) continue;
    e.cluster->impossible = true;
    e.limit = NULL;
    add_option(ctx, &e);
  }
}
