#include "planner/layer/apart.h"
#include "planner/layer/forms.h"
#include "planner/layer/gradient.h"
#include "planner/layer/hidden.h"
#include "planner/layer/op.h"
#include "planner/layer/reading.h"
#include "planner/layer/reshard.h"
#include "planner/layer/share.h"
#include "planner/layer/weight.h"
#include "planner/layer/work.h"
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

// What is added up of an op under a split, one after another.
typedef enum part { NOTHING, WORK, SUMS, WEIGHTS } part;

// What is known of an op under a split, up to sums.
typedef struct known_split {
  part known;
  bool summed;
  double seconds;
  double outer_sums; // of values that lie between clusters or calls, which `seconds` holds as well
} known_split;

// An op, and what it reads of values from elsewhere.
typedef struct bd_apart_op {
  bool plain;               // the work is divided evenly, whatever the split
  double summed, least;     // up to sums, and once it is weighed
  int8_t best[BD_MAX_AXES]; // the split that takes the least so far
  known_split *splits;
  double *weights; // per split, seconds; below 0: not known
  int reading_count;
  bd_reading readings[BD_MAX_OPERANDS];
} bd_apart_op;

// Whether a split may cost an op more than its share of the work.
static bool is_plain(const bd_layer_space *space, const bd_op *op) {
  bool weights = false;
  for (int k = 0; k < op->in_count; k++)
    weights = weights || space->is_weight[op->in[k]];
  return !weights && bd_op_get_info(op->kind)->traits & BD_POINTWISE;
}

static bd_apart_op take_apart(const bd_layer_space *space, int index) {
  const bd_op *op = &space->forward->ops[index];
  bd_apart_op out = {.plain = is_plain(space, op)};
  for (int k = 0; k < op->in_count; k++) {
    int maker = space->forward->values[op->in[k]].producer;
    bool own = maker >= 0 && space->cluster_of_op[maker] == space->cluster_of_op[index];
    if (!own && !space->is_weight[op->in[k]])
      out.readings[out.reading_count++] = bd_layer_reading(space, index, k);
  }
  return out;
}

// The op's results: those that leave the function, or the others.
static double result_sums(bd_layer_space *space, int index, const int8_t split[BD_MAX_AXES],
                          bool leaving) {
  const bd_cost_model *cost = &space->request->cost;
  const bd_op *op = &space->forward->ops[index];
  double seconds = 0;
  for (int r = 0; r < op->out_count; r++) {
    bd_id v = op->out[r];
    if (space->is_result[v] != leaving) continue;
    bd_sharding made = bd_split_result(&space->map[index], &cost->mesh, split, r);
    double sum = summing_seconds(cost, &space->forward->values[v].type, &made);
    seconds += bd_layer_exposed_sum(space, v, false, &made, sum);
  }
  return seconds;
}

// The gradients that an op hands back to what it reads; readers of a value share what brings its
// gradient home.
static double gradient_sums(bd_layer_space *space, const bd_apart_op *op, int index,
                            const int8_t split[BD_MAX_AXES]) {
  const bd_cost_model *cost = &space->request->cost;
  double seconds = 0;
  for (int i = 0; i < op->reading_count; i++) {
    const bd_reading *r = &op->readings[i];
    bd_sharding made = bd_layer_operand_gradient(space, index, r->operand, split);
    seconds += bd_layer_sum_seconds(space, index, r->operand, &made);
    if (!r->flows || r->may_stay_partial) continue;
    double sum = summing_seconds(cost, &space->forward->values[r->value].type, &made);
    seconds += bd_layer_exposed_sum(space, r->value, true, &made, sum) *
               bd_layer_share(space, index, r->value);
  }
  return seconds;
}

static known_split *outer_sums(bd_layer_space *space, const bd_apart_op *op, int index,
                               const int8_t split[BD_MAX_AXES]) {
  known_split *of = &op->splits[bd_layer_split_number(space, index, split)];
  if (of->summed) return of;
  of->summed = true;
  of->outer_sums = result_sums(space, index, split, true) + gradient_sums(space, op, index, split);
  return of;
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

static double weights_of(bd_layer_space *space, const bd_apart_op *op, int index,
                         const int8_t split[BD_MAX_AXES]) {
  double *seconds = &op->weights[bd_layer_split_number(space, index, split)];
  if (*seconds < 0) *seconds = weight_seconds(space, index, split);
  return *seconds;
}

// Up to a part, as far as `enough`.
static double split_seconds(bd_layer_space *space, const bd_apart_op *op, int index,
                            const int8_t split[BD_MAX_AXES], part upto, double enough) {
  known_split *of = &op->splits[bd_layer_split_number(space, index, split)];
  if (of->known == NOTHING) {
    const bd_op_work *work = bd_layer_work(space, index, split);
    of->seconds = work->forward + work->backward;
    of->known = WORK;
  }
  if (of->known == WORK && of->seconds < enough) {
    of->seconds +=
        outer_sums(space, op, index, split)->outer_sums + result_sums(space, index, split, false);
    of->known = SUMS;
  }
  if (upto == SUMS || of->known == WORK || of->seconds >= enough) return of->seconds;
  return of->seconds + weights_of(space, op, index, split);
}

static void try_split(bd_layer_space *space, bd_apart_op *op, int index, part upto,
                      const int8_t split[BD_MAX_AXES]) {
  double seconds = split_seconds(space, op, index, split, upto, op->least);
  if (seconds >= op->least) return;
  op->least = seconds;
  memcpy(op->best, split, sizeof op->best);
}

// Lowers the op's least to what it takes under any way to go on with a split from an axis on.
static void try_axis(bd_layer_space *space, bd_apart_op *op, int index, part upto, int axis,
                     int8_t split[BD_MAX_AXES]) {
  const bd_cost_model *cost = &space->request->cost;
  const bd_index_map *map = &space->map[index];
  if (axis == cost->mesh.axes) {
    if (bd_split_valid(map, &cost->mesh, cost->micro_batch, split))
      try_split(space, op, index, upto, split);
    return;
  }
  for (int loop = (cost->mesh.size[axis] > 1 ? map->loops : 0) - 1; loop >= -1; loop--) {
    if (loop >= 0 && !bd_split_allowed(map, &cost->mesh, cost->micro_batch, axis, loop)) continue;
    split[axis] = (int8_t)loop;
    try_axis(space, op, index, upto, axis + 1, split);
  }
  split[axis] = -1;
}

static void find_least(bd_layer_space *space, bd_apart_op *op, int index, part upto) {
  int8_t split[BD_MAX_AXES];
  memset(split, -1, sizeof split);
  try_axis(space, op, index, upto, 0, split);
}

// What takes the least up to sums is tried first, so that few weights of the rest are reckoned.
static void weigh(bd_layer_space *space, bd_apart_op *op, int index) {
  int8_t first[BD_MAX_AXES];
  int splits = bd_layer_split_count(space, index);
  op->weights = BD_NEW_ARRAY(space->tables, double, splits);
  for (int i = 0; i < splits; i++)
    op->weights[i] = -1;
  memcpy(first, op->best, sizeof first);
  op->least = INFINITY;
  if (isfinite(op->summed)) try_split(space, op, index, WEIGHTS, first);
  find_least(space, op, index, WEIGHTS);
}

void bd_layer_take_apart(bd_layer_space *space, bd_layer_apart *out) {
  out->summed = bd_layer_even_backward_seconds(space, -1);
  out->ops = BD_NEW_ARRAY(space->tables, bd_apart_op, space->forward->op_count);
  for (int i = 0; i < space->forward->op_count; i++) {
    bd_apart_op *op = &out->ops[i];
    *op = take_apart(space, i);
    op->least = INFINITY;
    if (op->plain) {
      op->least =
          bd_layer_even_seconds(&space->request->cost, space->forward, NULL, i, &space->map[i]) +
          bd_layer_even_backward_seconds(space, i);
    } else {
      op->splits = BD_NEW_ARRAY(space->tables, known_split, bd_layer_split_count(space, i));
      find_least(space, op, i, SUMS);
    }
    op->summed = op->least;
    out->summed += op->summed;
  }
  out->seconds = out->summed;
}

void bd_layer_take_apart_as(bd_layer_space *space, const bd_layer_apart *like,
                            bd_layer_apart *out) {
  int count = space->forward->op_count;
  *out = (bd_layer_apart){like->summed, like->summed,
                          bd_arena_copy(space->tables, like->ops, count, sizeof *like->ops)};
  for (int i = 0; i < count; i++)
    out->ops[i].least = out->ops[i].summed;
}

void bd_layer_weigh_apart(bd_layer_space *space, bd_layer_apart *apart) {
  for (int i = 0; i < space->forward->op_count; i++) {
    bd_apart_op *op = &apart->ops[i];
    if (op->plain) continue;
    weigh(space, op, i);
    apart->seconds += op->least - op->summed;
  }
}

double bd_layer_apart_with(bd_layer_space *space, const bd_layer_apart *apart,
                           const bd_cluster_ops *c, const bd_layer_option *option, double enough) {
  double seconds = apart->seconds;
  for (int i = 0; i < c->op_count && seconds < enough; i++) {
    const bd_apart_op *op = &apart->ops[c->ops[i]];
    int8_t split[BD_MAX_AXES];
    if (op->plain) continue;
    if (!bd_layer_split(space, c, option, c->ops[i], split)) return INFINITY;
    double rest = seconds - op->least;
    double own = split_seconds(space, op, c->ops[i], split, WEIGHTS, enough - rest);
    seconds = fmax(seconds, rest + own);
  }
  return seconds;
}

double bd_layer_apart_outer_sums(bd_layer_space *space, const bd_layer_apart *apart,
                                 const bd_cluster_ops *c, const bd_layer_option *option) {
  double seconds = 0;
  for (int i = 0; i < c->op_count; i++) {
    int8_t split[BD_MAX_AXES];
    const bd_apart_op *op = &apart->ops[c->ops[i]];
    if (op->plain || !bd_layer_split(space, c, option, c->ops[i], split)) continue;
    seconds += outer_sums(space, op, c->ops[i], split)->outer_sums;
  }
  return seconds;
}
