#include "planner/layer_space.h"
#include <string.h>

bool bd_layer_is_weight(const bd_layer_space *space, bd_id value) {
  const bd_function *f = space->forward;
  for (int p = 0; p < f->param_count; p++)
    if (f->params[p] == value) return f->is_weight[p];
  return false;
}

bd_sharding bd_layer_boundary(const bd_layer_space *space, bd_id value) {
  bd_sharding form = space->request->boundary.activation;
  int rank = space->forward->values[value].type.rank;
  for (int axis = 0; axis < BD_MAX_AXES; axis++)
    if (form.at[axis] >= rank) form.at[axis] = BD_REPLICATED;
  return form;
}

// The operand whose form a pointwise op can follow, or -1 when it must decide for itself.
static int followed_operand(const bd_layer_space *space, const bd_op *op) {
  if (!(bd_op_get_info(op->kind)->traits & BD_POINTWISE)) return -1;
  int found = -1;
  for (int i = 0; i < op->in_count; i++) {
    if (bd_layer_is_weight(space, op->in[i])) continue;
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
  bd_cluster_ops *cluster;
  bd_layer_option current;
  int capacity;
} enumeration;

static void add_option(bd_ctx *ctx, enumeration *e) {
  bd_cluster_ops *c = e->cluster;
  int op = c->ops[0];
  const bd_layer_request *request = e->space->request;
  if (!bd_split_valid(&e->space->map[op], &request->cost.mesh, request->cost.micro_batch,
                      e->current.split))
    return;
  for (int keep = 0; keep < BD_KEEP_COUNT; keep++) {
    if (request->recompute == 0 && keep != BD_KEEP_ALL) continue;
    if (request->recompute == 1 && keep != BD_KEEP_NONE) continue;
    if (keep == BD_KEEP_ANCHOR && c->op_count == 1) continue;
    if (c->option_count == e->capacity) {
      int wanted = e->capacity ? 2 * e->capacity : 32;
      c->options = bd_arena_grow(ctx->arena, c->options, (size_t)c->option_count, (size_t)wanted,
                                 sizeof *c->options);
      e->capacity = wanted;
    }
    e->current.keep = (bd_keep)keep;
    c->options[c->option_count++] = e->current;
  }
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
  for (int loop = -1; loop < map->loops; loop++) {
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

bd_status bd_layer_space_build(bd_ctx *ctx, const bd_layer_request *request, bd_layer_space *out) {
  const bd_function *backward = bd_module_find(request->train, request->function->peer);
  *out = (bd_layer_space){.request = request, .forward = request->function, .backward = backward};
  BD_TRY(infer_all(ctx, out->forward, &out->map));
  BD_TRY(infer_all(ctx, backward, &out->backward_map));
  build_clusters(ctx, out);
  count_uses(ctx, out);
  out->reshards = BD_NEW_ARRAY(ctx->arena, struct bd_reshard_cache **, out->forward->value_count);
  for (int c = 0; c < out->cluster_count; c++) {
    enumeration e = {.space = out, .cluster = &out->clusters[c]};
    memset(e.current.split, -1, sizeof e.current.split);
    memset(e.current.scatter, -1, sizeof e.current.scatter);
    enumerate_axis(ctx, &e, 0);
  }
  return BD_OK;
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
  if (space->is_result[value]) return bd_layer_boundary(space, value);
  bd_sharding form = bd_layer_produced(space, cluster, option, value);
  const bd_value *v = &space->forward->values[value];
  bool first = v->producer == cluster->ops[0] && v->result == 0;
  for (int axis = 0; axis < BD_MAX_AXES; axis++)
    if (form.at[axis] < BD_REPLICATED)
      form.at[axis] = first ? option->scatter[axis] : BD_REPLICATED;
  return form;
}

typedef struct bd_reshard_cache {
  bd_sharding from, to;
  double seconds;
  struct bd_reshard_cache *next;
} bd_reshard_cache;

enum { RESHARD_BUCKETS = 512 };

static unsigned bucket_of(const bd_sharding *from, const bd_sharding *to) {
  unsigned hash = 0;
  for (int axis = 0; axis < BD_MAX_AXES; axis++) {
    hash = hash * 31 + (unsigned)(from->at[axis] + 4);
    hash = hash * 37 + (unsigned)(to->at[axis] + 4);
  }
  return hash % RESHARD_BUCKETS;
}

bd_status bd_layer_reshard_seconds(bd_ctx *ctx, bd_layer_space *space, bd_id value,
                                   const bd_sharding *from, const bd_sharding *to,
                                   double *out_seconds) {
  *out_seconds = 0;
  if (bd_sharding_equal(from, to)) return BD_OK;
  if (!space->reshards[value])
    space->reshards[value] = BD_NEW_ARRAY(ctx->arena, bd_reshard_cache *, RESHARD_BUCKETS);
  bd_reshard_cache **bucket = &space->reshards[value][bucket_of(from, to)];
  for (bd_reshard_cache *c = *bucket; c; c = c->next)
    if (bd_sharding_equal(&c->from, from) && bd_sharding_equal(&c->to, to)) {
      *out_seconds = c->seconds;
      return BD_OK;
    }
  const bd_cost_model *cost = &space->request->cost;
  bd_module module = {
      .stage = BD_STAGE_SPMD, .mesh = cost->mesh, .stages = 1, .micro_batch = cost->micro_batch};
  bd_function *scratch = bd_function_create(ctx, "reshard");
  bd_id id = bd_function_add_param(ctx, scratch, NULL, space->forward->values[value].type), last;
  scratch->values[id].sharding = *from;
  scratch->values[id].has_sharding = true;
  BD_TRY(bd_reshard(ctx, &module, scratch, id, to, BD_NOWHERE, &last));
  for (int i = 0; i < scratch->op_count; i++)
    *out_seconds += bd_cost_collective(cost, scratch, &scratch->ops[i]);
  bd_reshard_cache *entry = BD_NEW(ctx->arena, bd_reshard_cache);
  *entry = (bd_reshard_cache){*from, *to, *out_seconds, *bucket};
  *bucket = entry;
  return BD_OK;
}
