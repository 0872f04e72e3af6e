#include "planner/layer/weight.h"
#include "planner/layer/forms.h"
#include "planner/layer/reshard.h"
#include "planner/layer/stored.h"
#include "planner/layer/work.h"
#include <math.h>

static int param_of(const bd_function *f, bd_id weight) {
  int param = 0;
  while (f->params[param] != weight)
    param++;
  return param;
}

// Whether two weights cost the same wherever they lie.
static bool is_alike(const bd_layer_space *space, bd_id a, bd_id b) {
  const bd_layer_weight *of_a = &space->weight[a], *of_b = &space->weight[b];
  return space->is_weight[a] && space->type_of[a] == space->type_of[b] &&
         space->weight_uses[a] == space->weight_uses[b] && of_a->calls == of_b->calls &&
         of_a->whole == of_b->whole && of_a->share == of_b->share && of_a->learns == of_b->learns;
}

void bd_layer_find_weights(bd_ctx *ctx, bd_layer_space *space) {
  const bd_function *f = space->forward;
  space->weight = BD_NEW_ARRAY(ctx->arena, bd_layer_weight, f->value_count);
  for (bd_id v = 0; v < f->value_count; v++) {
    if (!space->is_weight[v]) continue;
    int param = param_of(f, v);
    bd_weight_use use = space->request->weight_uses[param];
    space->weight[v] =
        (bd_layer_weight){.calls = use.calls,
                          .share = use.calls > 1 ? use.share[space->request->stages > 1] : 1,
                          .shared = use.calls > 1 || space->weight_uses[v] > 1,
                          .whole = use.whole,
                          .learns = bd_layer_learns(space->backward, param),
                          .like = v};
    for (bd_id other = 0; other < v && space->weight[v].like == v; other++)
      if (is_alike(space, other, v)) space->weight[v].like = other;
  }
}

// The dimension that one more axis may cut: one that it divides, which no axis cuts yet; without
// `even`, else the first that has a part for every rank. -1: none.
static int dim_to_cut(const bd_layer_space *space, const bd_type *type, const bd_sharding *form,
                      int axis, bool even) {
  const bd_mesh *mesh = &space->request->cost.mesh;
  int found = -1;
  for (int dim = 0; dim < type->rank; dim++) {
    int64_t extent = type->dims[dim], parts = bd_sharding_parts(mesh, form, dim);
    if (parts == 1 && extent % mesh->size[axis] == 0) return dim;
    if (!even && found < 0 && parts == 1 && bd_parts_are_filled(extent, mesh->size[axis]))
      found = dim;
  }
  return found;
}

// Whether the form that the split wants is `stored` with replicas where that is cut.
static bool comes_from(const bd_sharding *wanted, const bd_sharding *stored) {
  for (int axis = 0; axis < BD_MAX_AXES; axis++)
    if (wanted->at[axis] != stored->at[axis] && wanted->at[axis] != BD_REPLICATED) return false;
  return true;
}

// Several axes cut one dimension only when they divide it, one where that leaves no rank without a
// part.
static bool can_lie(const bd_mesh *mesh, const bd_type *type, const bd_sharding *form) {
  for (int dim = 0; dim < type->rank; dim++) {
    int axes = 0, parts = bd_sharding_parts(mesh, form, dim);
    for (int axis = 0; axis < mesh->axes; axis++)
      axes += form->at[axis] == dim;
    if (axes > 1 && type->dims[dim] % parts) return false;
    if (!bd_parts_are_filled(type->dims[dim], parts)) return false;
  }
  return true;
}

bd_weight_form bd_layer_weight_form(const bd_layer_space *space, int op, int operand,
                                    const int8_t split[BD_MAX_AXES],
                                    const bd_layer_option *option) {
  const bd_mesh *mesh = &space->request->cost.mesh;
  bd_id weight = space->forward->ops[op].in[operand];
  bd_weight_form out = {.possible = true};
  out.wanted = out.stored = bd_split_operand(&space->map[op], mesh, split, operand);
  if (space->weight[weight].shared) {
    bd_sharding stored =
        space->weight[weight].whole ? bd_sharding_replicated() : space->request->tied_form;
    out.possible = comes_from(&out.wanted, &stored) &&
                   can_lie(mesh, &space->forward->values[weight].type, &stored);
    out.stored = out.gradient = stored;
    return out;
  }
  bool even = option->spread == BD_SPREAD_GRADIENTS;
  for (int axis = 0; axis < mesh->axes; axis++) {
    if (!(option->spread_axes >> axis & 1u) || out.wanted.at[axis] != BD_REPLICATED) continue;
    const bd_type *type = &space->forward->values[weight].type;
    out.stored.at[axis] = (int8_t)dim_to_cut(space, type, &out.stored, axis, even);
  }
  out.gradient = out.stored;
  if (even) out.stored = out.wanted;
  return out;
}

unsigned bd_layer_op_spread_axes(const bd_layer_space *space, int op,
                                 const int8_t split[BD_MAX_AXES]) {
  const bd_function *f = space->forward;
  const bd_mesh *mesh = &space->request->cost.mesh;
  unsigned mask = 0;
  for (int k = 0; k < f->ops[op].in_count; k++) {
    bd_id weight = f->ops[op].in[k];
    if (!space->is_weight[weight] || space->weight[weight].shared) continue;
    bd_sharding wanted = bd_split_operand(&space->map[op], mesh, split, k);
    for (int axis = 0; axis < mesh->axes; axis++)
      if (mesh->size[axis] > 1 && wanted.at[axis] == BD_REPLICATED &&
          dim_to_cut(space, &f->values[weight].type, &wanted, axis, false) >= 0)
        mask |= 1u << axis;
  }
  return mask;
}

unsigned bd_layer_spread_axes(const bd_layer_space *space, const bd_cluster_ops *cluster,
                              const bd_layer_option *option) {
  unsigned mask = 0;
  for (int i = 0; i < cluster->op_count; i++) {
    int8_t split[BD_MAX_AXES];
    if (bd_layer_split(space, cluster, option, cluster->ops[i], split))
      mask |= bd_layer_op_spread_axes(space, cluster->ops[i], split);
  }
  return mask;
}

// Bringing the weight to the op, and to backward ops of the op's group that read it; several
// readers share that.
static void add_gathers(bd_layer_space *space, int op, bd_id weight, const bd_weight_form *form,
                        const int8_t split[BD_MAX_AXES], bd_weight_cost *out) {
  bd_sharding needs[BD_MAX_OPERANDS];
  if (bd_sharding_equal(&form->stored, &form->wanted)) return;
  double gather = bd_layer_reshard_seconds(space, weight, &form->stored, &form->wanted);
  out->seconds += gather / space->weight_uses[weight];
  int count = bd_layer_backward_needs(space, op, split, weight, BD_MAX_OPERANDS, needs);
  for (int i = 0; i < count; i++)
    out->seconds += bd_layer_reshard_seconds(space, weight, &form->stored, &needs[i]) /
                    space->backward_reads[weight];
  if (!space->backward_reads[weight]) out->rerun_seconds += gather / space->weight_uses[weight];
}

static void add_weight(bd_layer_space *space, int op, bd_id weight, const bd_weight_form *form,
                       const int8_t split[BD_MAX_AXES], bd_weight_cost *out) {
  bd_stored_cost stored = bd_layer_stored_cost(space, weight, form, split);
  add_gathers(space, op, weight, form, split, out);
  out->seconds += stored.seconds;
  out->state_bytes += stored.state_bytes;
}

static bd_weight_cost reckon(bd_layer_space *space, int index, const int8_t split[BD_MAX_AXES],
                             const bd_layer_option *option) {
  const bd_op *op = &space->forward->ops[index];
  bd_weight_cost out = {0, 0, 0};
  for (int i = 0; i < op->in_count; i++) {
    if (!space->is_weight[op->in[i]]) continue;
    bd_weight_form form = bd_layer_weight_form(space, index, i, split, option);
    if (!form.possible)
      out.seconds = INFINITY;
    else
      add_weight(space, index, op->in[i], &form, split, &out);
  }
  return out;
}

typedef struct bd_known_weight {
  bool known;
  bd_weight_cost cost;
} bd_known_weight;

static bool has_weight(const bd_layer_space *space, int index) {
  const bd_op *op = &space->forward->ops[index];
  for (int i = 0; i < op->in_count; i++)
    if (space->is_weight[op->in[i]]) return true;
  return false;
}

bd_weight_cost bd_layer_weight_cost(bd_layer_space *space, int index,
                                    const int8_t split[BD_MAX_AXES],
                                    const bd_layer_option *option) {
  int masks = 1 << space->request->cost.mesh.axes, spreads = BD_SPREAD_WEIGHTS + 1;
  if (!has_weight(space, index)) return (bd_weight_cost){0, 0, 0};
  if (!space->weights)
    space->weights = BD_NEW_ARRAY(space->tables, bd_known_weight *, space->forward->op_count);
  bd_known_weight **table = &space->weights[index];
  if (!*table)
    *table = BD_NEW_ARRAY(space->tables, bd_known_weight,
                          (int64_t)bd_layer_split_count(space, index) * spreads * masks);
  int spread = bd_layer_split_number(space, index, split) * spreads + (int)option->spread;
  bd_known_weight *at = &(*table)[spread * masks + option->spread_axes];
  if (!at->known) *at = (bd_known_weight){true, reckon(space, index, split, option)};
  return at->cost;
}
