#include "planner/layer/weight.h"
#include "planner/step/end.h"
#include <math.h>

static int param_of(const bd_function *f, bd_id weight) {
  int param = 0;
  while (f->params[param] != weight)
    param++;
  return param;
}

static bool is_shared(const bd_layer_space *space, bd_id weight) {
  int param = param_of(space->forward, weight);
  return space->request->weight_uses[param] > 1 || space->weight_uses[weight] > 1;
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
    if (!even && found < 0 && parts == 1 && extent > mesh->size[axis]) found = dim;
  }
  return found;
}

// Whether the form that the split wants is `stored` with replicas where that is cut.
static bool comes_from(const bd_sharding *wanted, const bd_sharding *stored) {
  for (int axis = 0; axis < BD_MAX_AXES; axis++)
    if (wanted->at[axis] != stored->at[axis] && wanted->at[axis] != BD_REPLICATED) return false;
  return true;
}

// Several axes cut one dimension only when they divide it.
static bool can_lie(const bd_mesh *mesh, const bd_type *type, const bd_sharding *form) {
  for (int dim = 0; dim < type->rank; dim++) {
    int axes = 0;
    for (int axis = 0; axis < mesh->axes; axis++)
      axes += form->at[axis] == dim;
    if (axes > 1 && type->dims[dim] % bd_sharding_parts(mesh, form, dim)) return false;
  }
  return true;
}

bd_weight_form bd_layer_weight_form(const bd_layer_space *space, int op, int operand,
                                    const int8_t split[BD_MAX_AXES],
                                    const bd_layer_option *option) {
  const bd_layer_request *request = space->request;
  const bd_mesh *mesh = &request->cost.mesh;
  bd_id weight = space->forward->ops[op].in[operand];
  bd_weight_form out = {.possible = true};
  out.wanted = out.stored = bd_split_operand(&space->map[op], mesh, split, operand);
  if (is_shared(space, weight)) {
    out.possible = comes_from(&out.wanted, &request->tied_form) &&
                   can_lie(mesh, &space->forward->values[weight].type, &request->tied_form);
    out.stored = out.gradient = request->tied_form;
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

unsigned bd_layer_spread_axes(const bd_layer_space *space, const bd_cluster_ops *cluster,
                              const bd_layer_option *option) {
  const bd_function *f = space->forward;
  const bd_mesh *mesh = &space->request->cost.mesh;
  unsigned mask = 0;
  for (int i = 0; i < cluster->op_count; i++) {
    int op = cluster->ops[i];
    int8_t split[BD_MAX_AXES];
    if (!bd_layer_split(space, cluster, option, op, split)) continue;
    for (int k = 0; k < f->ops[op].in_count; k++) {
      bd_id weight = f->ops[op].in[k];
      if (!space->is_weight[weight] || is_shared(space, weight)) continue;
      bd_sharding wanted = bd_split_operand(&space->map[op], mesh, split, k);
      for (int axis = 0; axis < mesh->axes; axis++)
        if (mesh->size[axis] > 1 && wanted.at[axis] == BD_REPLICATED &&
            dim_to_cut(space, &f->values[weight].type, &wanted, axis, false) >= 0)
          mask |= 1u << axis;
    }
  }
  return mask;
}

// The gradient as it is made: partial over axes whose loop the weight lacks.
static bd_sharding gradient_made(const bd_mesh *mesh, const bd_weight_form *form,
                                 const int8_t split[BD_MAX_AXES]) {
  bd_sharding made = form->wanted;
  for (int axis = 0; axis < mesh->axes; axis++)
    if (split[axis] >= 0 && made.at[axis] == BD_REPLICATED) made.at[axis] = BD_PARTIAL_SUM;
  return made;
}

// In every micro-batch: collectives from the form in which the gradient is made to the accumulator,
// and what then adds it there. Sums that wait for the step's end cost nothing.
static double scatter_seconds(const bd_cost_model *cost, const bd_type *weight,
                              const bd_sharding *made, const bd_sharding *accumulator) {
  if (bd_sharding_equal(made, accumulator)) return 0;
  bd_type wide = *weight;
  wide.dtype = bd_dtype_wide(weight->dtype);
  return bd_cost_reshard(cost, &wide, made, accumulator) +
         2 * bd_cost_local_bytes(cost, &wide, accumulator) / cost->cluster->memory_bytes_per_second;
}

// Bringing the weight to the op, and to backward ops of the op's group that read it; several
// readers share that.
static void add_gathers(const bd_layer_space *space, int op, bd_id weight,
                        const bd_weight_form *form, const int8_t split[BD_MAX_AXES],
                        bd_weight_cost *out) {
  const bd_cost_model *cost = &space->request->cost;
  const bd_type *type = &space->forward->values[weight].type;
  bd_sharding needs[BD_MAX_OPERANDS];
  if (bd_sharding_equal(&form->stored, &form->wanted)) return;
  double gather = bd_cost_reshard(cost, type, &form->stored, &form->wanted);
  out->seconds += gather / space->weight_uses[weight];
  int count = bd_layer_backward_needs(space, op, split, weight, BD_MAX_OPERANDS, needs);
  for (int i = 0; i < count; i++)
    out->seconds +=
        bd_cost_reshard(cost, type, &form->stored, &needs[i]) / space->backward_reads[weight];
  if (!space->backward_reads[weight]) out->rerun_seconds += gather / space->weight_uses[weight];
}

// What the optimizer holds of one element on a rank.
static double optimizer_bytes(const bd_layer_request *request, bd_dtype dtype,
                              const bd_weight_form *form) {
  double bytes = (double)bd_optimizer_state_bytes(request->optimizer, dtype);
  if (!bd_sharding_equal(&form->stored, &form->gradient)) return bytes;
  bool split = bd_constraints_split_states(request->constraints, request->zero);
  for (int axis = 0; split && axis < request->cost.mesh.axes; axis++)
    if (form->stored.at[axis] == BD_REPLICATED) bytes /= request->cost.mesh.size[axis];
  return bytes;
}

static bool has_gradient(const bd_layer_space *space, bd_id weight) {
  int param = param_of(space->forward, weight);
  for (int r = 0; r < space->backward->result_count; r++)
    if (space->backward->gradient_of[r] == param) return true;
  return false;
}

// The least that the end of a step takes for one of `calls` uses of a weight that a stage may have.
static double end_seconds(const bd_layer_request *request, const bd_type *type,
                          const bd_sharding *stored, const bd_sharding *accumulator, int calls) {
  bool may_split = bd_constraints_split_states(request->constraints, request->zero);
  bd_value weight = {.type = *type, .sharding = *stored};
  bd_value gradient = {.type = *type, .sharding = *accumulator};
  gradient.type.dtype = bd_dtype_wide(type->dtype);
  double least = INFINITY;
  for (int zero = 0; zero <= may_split; zero++) {
    bd_weight_end end = bd_step_end_of_weight(&request->cost, request->optimizer, &weight,
                                              &gradient, zero ? ~0u : 0);
    least = fmin(least, end.each + end.once / calls);
  }
  return least;
}

static void add_weight(const bd_layer_space *space, int op, bd_id weight,
                       const bd_weight_form *form, const int8_t split[BD_MAX_AXES],
                       bd_weight_cost *out) {
  const bd_layer_request *request = space->request;
  const bd_cost_model *cost = &request->cost;
  const bd_type *type = &space->forward->values[weight].type;
  bd_sharding made = gradient_made(&cost->mesh, form, split), accumulator = form->gradient;
  for (int axis = 0; axis < BD_MAX_AXES; axis++)
    if (made.at[axis] == BD_PARTIAL_SUM && accumulator.at[axis] == BD_REPLICATED)
      accumulator.at[axis] = BD_PARTIAL_SUM;
  int uses = space->weight_uses[weight];
  add_gathers(space, op, weight, form, split, out);
  out->seconds += scatter_seconds(cost, type, &made, &accumulator) / uses;
  int calls = request->weight_uses[param_of(space->forward, weight)];
  if (has_gradient(space, weight))
    out->seconds +=
        end_seconds(request, type, &form->stored, &accumulator, calls) / request->passes / uses;
  double own = bd_cost_local_elements(cost, type, &form->gradient);
  double bytes = bd_cost_local_bytes(cost, type, &form->stored);
  if (calls == 1)
    bytes += own * (double)bd_dtype_bytes(bd_dtype_wide(type->dtype)) +
             own * optimizer_bytes(request, type->dtype, form);
  out->state_bytes += bytes / uses;
}

static bd_weight_cost reckon(const bd_layer_space *space, int index,
                             const int8_t split[BD_MAX_AXES], const bd_layer_option *option) {
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
