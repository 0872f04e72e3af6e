#include "planner/layer/space.h"
#include "planner/constraints/option.h"
#include "planner/layer/apart.h"
#include "planner/layer/gradient.h"
#include "planner/layer/op.h"
#include "planner/layer/weight.h"
#include <math.h>
#include <string.h>

bd_sharding bd_layer_boundary(const bd_layer_space *space, int form, bd_id value) {
  return bd_sharding_for_rank(&space->request->forms[form],
                              space->forward->values[value].type.rank);
}

// The operand whose form a pointwise op can follow, or -1 when it must decide for itself.
static int followed_operand(const bd_layer_space *space, const bd_op *op) {
  if (!(bd_op_get_info(op->kind)->traits & BD_POINTWISE)) return -1;
  int found = -1;
  for (int i = 0; i < op->in_count; i++) {
    if (space->is_weight[op->in[i]]) continue;
    if (found >= 0) return -1;
    found = i;
  }
  if (found < 0 || space->forward->values[op->in[found]].producer < 0) return -1;
  int rank = space->forward->values[op->in[found]].type.rank;
  return rank == space->forward->values[op->out[0]].type.rank ? found : -1;
}

static void build_clusters(bd_ctx *ctx, bd_layer_space *space) {
  const bd_function *f = space->forward;
  space->clusters = BD_NEW_ARRAY(ctx->arena, bd_cluster_ops, f->op_count);
  space->cluster_of_op = BD_NEW_ARRAY(ctx->arena, int, f->op_count);
  for (int i = 0; i < f->op_count; i++) {
    int followed = followed_operand(space, &f->ops[i]);
    const bd_value *operand = followed < 0 ? NULL : &f->values[f->ops[i].in[followed]];
    bool follows = operand && operand->result == 0;
    int cluster = follows ? space->cluster_of_op[operand->producer] : space->cluster_count++;
    bd_cluster_ops *c = &space->clusters[cluster];
    if (!c->ops) c->ops = BD_NEW_ARRAY(ctx->arena, int, f->op_count);
    c->ops[c->op_count++] = i;
    space->cluster_of_op[i] = cluster;
  }
}

static bd_status infer_all(bd_ctx *ctx, const bd_function *function, bd_index_map **out_maps) {
  bd_type types[BD_MAX_RESULTS];
  *out_maps = BD_NEW_ARRAY(ctx->arena, bd_index_map, function->op_count);
  for (int i = 0; i < function->op_count; i++)
    BD_TRY(bd_op_infer(ctx, function, &function->ops[i], &(*out_maps)[i], types));
  return BD_OK;
}

static int first_of_type(const bd_function *f, bd_id value) {
  for (bd_id v = 0; v < value; v++)
    if (bd_type_equal(&f->values[v].type, &f->values[value].type)) return v;
  return value;
}

static void find_roles(bd_ctx *ctx, bd_layer_space *space) {
  const bd_function *f = space->forward;
  space->is_weight = BD_NEW_ARRAY(ctx->arena, bool, f->value_count);
  space->type_of = BD_NEW_ARRAY(ctx->arena, int, f->value_count);
  for (int p = 0; p < f->param_count; p++)
    space->is_weight[f->params[p]] = f->is_weight[p];
  for (bd_id v = 0; v < f->value_count; v++)
    space->type_of[v] = first_of_type(f, v);
}

// Whether backward reads a result of the op.
static bool is_needed(const bd_layer_space *space, int op) {
  const bd_op *at = &space->forward->ops[op];
  for (int r = 0; r < at->out_count; r++)
    if (space->needed[at->out[r]]) return true;
  return false;
}

bool bd_layer_keeps(const bd_layer_space *space, const bd_layer_option *option, int op) {
  return option->kept > space->kept_above[op];
}

bool bd_layer_runs_again(const bd_layer_space *space, const bd_layer_option *option, int op) {
  return option->kept <= space->again_to[op];
}

// The readers of an op's results within its cluster that are run again take the op along, unless
// what they read is kept; of results that backward does not read, nothing is kept.
static void take_along(bd_layer_space *space, int reader, int op) {
  const bd_function *f = space->forward;
  int8_t most = space->again_to[reader];
  for (int k = 0; k < f->ops[reader].in_count; k++) {
    bd_id v = f->ops[reader].in[k];
    if (f->values[v].producer != op) continue;
    int8_t own = space->needed[v] && space->kept_above[op] < most ? space->kept_above[op] : most;
    if (own > space->again_to[op]) space->again_to[op] = own;
  }
}

static void find_keeps(bd_ctx *ctx, bd_layer_space *space) {
  const bd_function *f = space->forward;
  space->kept_above = BD_NEW_ARRAY(ctx->arena, int8_t, f->op_count);
  space->again_to = BD_NEW_ARRAY(ctx->arena, int8_t, f->op_count);
  for (int i = 0; i < f->op_count; i++) {
    bd_cluster_ops *c = &space->clusters[space->cluster_of_op[i]];
    space->kept_above[i] = c->needed_count;
    space->again_to[i] = is_needed(space, i) ? c->needed_count : -1;
    c->needed_count = (int8_t)(c->needed_count + is_needed(space, i));
  }
  for (int i = f->op_count - 1; i >= 0; i--)
    for (int reader = i + 1; reader < f->op_count; reader++)
      if (space->cluster_of_op[reader] == space->cluster_of_op[i]) take_along(space, reader, i);
}

static void count_uses(bd_ctx *ctx, bd_layer_space *space) {
  const bd_function *f = space->forward;
  space->needed = BD_NEW_ARRAY(ctx->arena, bool, f->value_count);
  space->is_result = BD_NEW_ARRAY(ctx->arena, bool, f->value_count);
  space->consumers = BD_NEW_ARRAY(ctx->arena, int, f->value_count);
  space->weight_uses = BD_NEW_ARRAY(ctx->arena, int, f->value_count);
  for (int i = 0; i < f->save_count; i++)
    space->needed[f->saves[i]] = f->values[f->saves[i]].producer >= 0;
  for (int i = 0; i < f->result_count; i++)
    space->is_result[f->results[i]] = true;
  for (int i = 0; i < f->op_count; i++)
    for (int o = 0; o < f->ops[i].in_count; o++) {
      bd_id v = f->ops[i].in[o];
      int producer = f->values[v].producer;
      if (producer < 0 || space->cluster_of_op[producer] != space->cluster_of_op[i])
        space->consumers[v]++;
      space->weight_uses[v]++;
    }
  find_keeps(ctx, space);
}

static void count_backward_reads(bd_ctx *ctx, bd_layer_space *space) {
  const bd_function *f = space->forward, *b = space->backward;
  space->restores = BD_NEW_ARRAY(ctx->arena, bd_id, b->value_count);
  space->backward_reads = BD_NEW_ARRAY(ctx->arena, int, f->value_count);
  for (bd_id v = 0; v < b->value_count; v++)
    space->restores[v] = BD_NO_ID;
  for (int i = 0; i < b->restore_count; i++)
    space->restores[b->params[i]] = f->saves[i];
  for (int i = 0; i < b->op_count; i++)
    for (int k = 0; k < b->ops[i].in_count; k++) {
      bd_id v = space->restores[b->ops[i].in[k]];
      if (v != BD_NO_ID) space->backward_reads[v]++;
    }
}

static bool scatter_allowed(const bd_layer_space *space, bd_id value, int axis, int dim,
                            const bd_sharding *produced) {
  const bd_type *type = &space->forward->values[value].type;
  const bd_mesh *mesh = &space->request->cost.mesh;
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

// Combinations of loops and of no loop, over the axes of the mesh.
int bd_layer_split_count(const bd_layer_space *space, int op) {
  int count = 1;
  for (int axis = 0; axis < space->request->cost.mesh.axes; axis++)
    count *= space->map[op].loops + 1;
  return count;
}

int bd_layer_split_number(const bd_layer_space *space, int op, const int8_t split[BD_MAX_AXES]) {
  int number = 0;
  for (int axis = 0; axis < space->request->cost.mesh.axes; axis++)
    number = number * (space->map[op].loops + 1) + split[axis] + 1;
  return number;
}

bd_status bd_layer_space_read(bd_ctx *ctx, const bd_layer_request *request, bd_layer_space *out) {
  const bd_function *backward = bd_layer_backward(request->train, request->function);
  *out = (bd_layer_space){
      .ctx = ctx, .request = request, .forward = request->function, .backward = backward};
  BD_TRY(infer_all(ctx, out->forward, &out->map));
  BD_TRY(infer_all(ctx, backward, &out->backward_map));
  find_roles(ctx, out);
  build_clusters(ctx, out);
  count_uses(ctx, out);
  count_backward_reads(ctx, out);
  bd_layer_find_gradients(ctx, out);
  bd_layer_find_weights(ctx, out);
  out->work = BD_NEW_ARRAY(ctx->arena, bd_op_work *, out->forward->op_count);
  for (int i = 0; i < out->forward->op_count; i++)
    out->work[i] = BD_NEW_ARRAY(ctx->arena, bd_op_work, bd_layer_split_count(out, i));
  return BD_OK;
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

// The form that the anchor's first result settles in.
static bd_sharding anchor_form(const bd_layer_space *space, const bd_cluster_ops *cluster,
                               const bd_layer_option *option) {
  bd_sharding form =
      bd_split_result(&space->map[cluster->ops[0]], &space->request->cost.mesh, option->split, 0);
  for (int axis = 0; axis < BD_MAX_AXES; axis++)
    if (form.at[axis] < BD_REPLICATED) form.at[axis] = option->scatter[axis];
  return form;
}

bool bd_layer_split(const bd_layer_space *space, const bd_cluster_ops *cluster,
                    const bd_layer_option *option, int op, int8_t out_split[BD_MAX_AXES]) {
  if (op == cluster->ops[0]) {
    memcpy(out_split, option->split, BD_MAX_AXES);
    return true;
  }
  bd_sharding form = anchor_form(space, cluster, option);
  const bd_index_map *map = &space->map[op];
  for (int axis = 0; axis < BD_MAX_AXES; axis++)
    out_split[axis] = form.at[axis] < 0 ? -1 : map->out[0][form.at[axis]];
  return bd_split_valid(map, &space->request->cost.mesh, space->request->cost.micro_batch,
                        out_split);
}

bd_sharding bd_layer_produced(const bd_layer_space *space, const bd_cluster_ops *cluster,
                              const bd_layer_option *option, bd_id value) {
  const bd_value *v = &space->forward->values[value];
  int8_t split[BD_MAX_AXES];
  if (!bd_layer_split(space, cluster, option, v->producer, split)) memset(split, -1, sizeof split);
  return bd_split_result(&space->map[v->producer], &space->request->cost.mesh, split, v->result);
}

bd_sharding bd_layer_form(const bd_layer_space *space, const bd_cluster_ops *cluster,
                          const bd_layer_option *option, bd_id value) {
  bd_sharding form = bd_layer_produced(space, cluster, option, value);
  const bd_value *v = &space->forward->values[value];
  bool first = v->producer == cluster->ops[0] && v->result == 0;
  for (int axis = 0; axis < BD_MAX_AXES; axis++)
    if (form.at[axis] < BD_REPLICATED)
      form.at[axis] = first ? option->scatter[axis] : BD_REPLICATED;
  return form;
}

// Backward ops are split at the letters of their group where they can be.
static void backward_split(const bd_layer_space *space, int op,
                           const int8_t group_split[BD_MAX_AXES], int8_t out[BD_MAX_AXES]) {
  const bd_cost_model *cost = &space->request->cost;
  const bd_index_map *map = &space->backward_map[op];
  const bd_index_map *group = &space->map[space->backward->ops[op].group];
  for (int axis = 0; axis < BD_MAX_AXES; axis++) {
    int loop = group_split[axis];
    out[axis] = -1;
    if (loop < 0) continue;
    int own = bd_index_find(map, group->loop[loop].letter);
    if (own >= 0 && bd_split_allowed(map, &cost->mesh, cost->micro_batch, axis, own))
      out[axis] = (int8_t)own;
  }
}

static double backward_seconds(const bd_layer_space *space, int group,
                               const int8_t group_split[BD_MAX_AXES]) {
  const bd_function *f = space->backward;
  double seconds = 0;
  for (int i = 0; i < f->op_count; i++) {
    int8_t split[BD_MAX_AXES];
    if (f->ops[i].group != group) continue;
    backward_split(space, i, group_split, split);
    seconds += bd_layer_op_seconds(&space->request->cost, f, space->forward, i,
                                   &space->backward_map[i], split);
  }
  return seconds;
}

bd_cut_product bd_layer_gradient_product(const bd_layer_space *space, int group,
                                         const int8_t group_split[BD_MAX_AXES]) {
  const bd_function *f = space->backward;
  bd_cut_product out = {0, INFINITY};
  for (int i = 0; i < f->op_count; i++) {
    int8_t split[BD_MAX_AXES];
    if (f->ops[i].group != group || f->ops[i].kind != BD_OP_CONTRACT ||
        bd_is_weight_gradient(space->forward, f, f->ops[i].out[0]))
      continue;
    backward_split(space, i, group_split, split);
    bd_cut_product one =
        bd_cost_cut_product(&space->request->cost, f, &f->ops[i], &space->backward_map[i], split);
    out.seconds = fmax(out.seconds, one.seconds);
    out.start_seconds = fmin(out.start_seconds, one.start_seconds);
  }
  return out;
}

int bd_layer_backward_needs(const bd_layer_space *space, int group,
                            const int8_t group_split[BD_MAX_AXES], bd_id value, int most,
                            bd_sharding *out) {
  const bd_function *f = space->backward;
  int count = 0;
  for (int i = 0; i < f->op_count; i++) {
    if (f->ops[i].group != group) continue;
    for (int k = 0; k < f->ops[i].in_count && count < most; k++) {
      int8_t split[BD_MAX_AXES];
      if (space->restores[f->ops[i].in[k]] != value) continue;
      backward_split(space, i, group_split, split);
      out[count++] =
          bd_split_operand(&space->backward_map[i], &space->request->cost.mesh, split, k);
    }
  }
  return count;
}

// Work depends on how many parts every loop is cut into, not on which axes of a size cut it.
static bd_op_work *work_of(bd_layer_space *space, int op, const int8_t split[BD_MAX_AXES]) {
  const bd_mesh *mesh = &space->request->cost.mesh;
  int8_t sorted[BD_MAX_AXES];
  memcpy(sorted, split, sizeof sorted);
  for (int a = 0; a < mesh->axes; a++)
    for (int b = a + 1; b < mesh->axes; b++)
      if (mesh->size[a] == mesh->size[b] && sorted[a] > sorted[b]) {
        int8_t held = sorted[a];
        sorted[a] = sorted[b];
        sorted[b] = held;
      }
  return &space->work[op][bd_layer_split_number(space, op, sorted)];
}

const bd_op_work *bd_layer_work(bd_layer_space *space, int op, const int8_t split[BD_MAX_AXES]) {
  bd_op_work *work = work_of(space, op, split);
  if (work->known) return work;
  work->known = true;
  work->forward =
      bd_layer_op_seconds(&space->request->cost, space->forward, NULL, op, &space->map[op], split);
  work->backward = backward_seconds(space, op, split);
  return work;
}

double bd_layer_rerun_seconds(bd_layer_space *space, int op, const int8_t split[BD_MAX_AXES]) {
  bd_op_work *work = work_of(space, op, split);
  if (work->clone_known) return work->clone;
  work->clone_known = true;
  work->clone = bd_layer_clone_seconds(&space->request->cost, space->forward, space->backward, op,
                                       &space->map[op], split);
  return work->clone;
}
