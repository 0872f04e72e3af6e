#include "planner/layer/stored.h"
#include "ir/memory.h"
#include "ir/optimizer.h"
#include "planner/layer/work.h"
#include "planner/step/end.h"
#include <math.h>

// What is known of one weight: by how its gradient is made, a list of the forms it was stored in,
// and of the seconds of the product that makes its gradient.
typedef struct known {
  struct known *next;
  bd_sharding stored, gradient;
  double product;
  bd_stored_cost cost;
} known;

typedef struct bd_stored_table {
  int values; // a gradient's form is a number with a digit for every axis, below this
  known **by_made;
} bd_stored_table;

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
static double scatter_seconds(const bd_layer_request *request, const bd_type *weight,
                              const bd_sharding *made, const bd_sharding *accumulator) {
  const bd_cost_model *cost = &request->cost;
  if (bd_sharding_equal(made, accumulator)) return 0;
  bd_type gradient = *weight;
  gradient.dtype = bd_gradient_dtype(request->gradients, weight->dtype);
  return bd_cost_reshard(cost, &gradient, made, accumulator) +
         2 * bd_cost_local_bytes(cost, &gradient, accumulator) /
             cost->cluster->memory_bytes_per_second;
}

// What the optimizer holds of one element on a rank.
static double optimizer_bytes(const bd_layer_request *request, bd_dtype dtype,
                              const bd_weight_form *form) {
  double bytes = (double)bd_optimizer_state_bytes(request->optimizer, request->masters, dtype);
  if (!bd_sharding_equal(&form->stored, &form->gradient)) return bytes;
  bool split = bd_constraints_split_states(request->constraints, request->zero);
  for (int axis = 0; split && axis < request->cost.mesh.axes; axis++)
    if (form->stored.at[axis] == BD_REPLICATED) bytes /= request->cost.mesh.size[axis];
  return bytes;
}

// The least that the end of a step takes for a call that uses the weight.
static double end_seconds(const bd_layer_request *request, const bd_type *type,
                          const bd_sharding *stored, const bd_sharding *accumulator,
                          const bd_layer_weight *of, double product) {
  bool may_split = bd_constraints_split_states(request->constraints, request->zero);
  bd_value weight = {.type = *type, .sharding = *stored};
  bd_value gradient = {.type = *type, .sharding = *accumulator};
  gradient.type.dtype = bd_gradient_dtype(request->gradients, type->dtype);
  double least = INFINITY;
  for (int zero = 0; zero <= may_split; zero++) {
    bd_weight_end end =
        bd_step_end_of_weight(&request->cost, request->optimizer, request->masters, &weight,
                              &gradient, zero ? ~0u : 0, product, of->calls == 1);
    least = fmin(least, end.each + of->share * end.once);
  }
  return least;
}

// What so many bytes, or a little more, take up at least where they are placed.
static double placed(double bytes) {
  return (double)bd_align((int64_t)bytes);
}

static bd_stored_cost reckon(const bd_layer_space *space, bd_id weight, const bd_weight_form *form,
                             const bd_sharding *made, double product) {
  const bd_layer_request *request = space->request;
  const bd_layer_weight *of = &space->weight[weight];
  const bd_cost_model *cost = &request->cost;
  const bd_type *type = &space->forward->values[weight].type;
  bd_sharding accumulator = form->gradient;
  for (int axis = 0; axis < BD_MAX_AXES; axis++)
    if (made->at[axis] == BD_PARTIAL_SUM && accumulator.at[axis] == BD_REPLICATED)
      accumulator.at[axis] = BD_PARTIAL_SUM;
  double seconds = scatter_seconds(request, type, made, &accumulator);
  if (of->learns && request->passes)
    seconds +=
        end_seconds(request, type, &form->stored, &accumulator, of, product) / request->passes;
  double own = bd_cost_local_elements(cost, type, &form->gradient);
  double bytes = placed(bd_cost_local_bytes(cost, type, &form->stored));
  if (of->calls == 1)
    bytes +=
        placed(own * (double)bd_dtype_bytes(bd_gradient_dtype(request->gradients, type->dtype))) +
        placed(own * optimizer_bytes(request, type->dtype, form) +
               (double)bd_optimizer_factor_bytes(bd_optimizer_find(request->optimizer), &cost->mesh,
                                                 type, &form->gradient));
  int uses = space->weight_uses[weight];
  return (bd_stored_cost){seconds / uses, bytes / uses};
}

static bd_stored_table *table_of(bd_layer_space *space, bd_id weight) {
  if (!space->stored)
    space->stored = BD_NEW_ARRAY(space->tables, bd_stored_table *, space->forward->value_count);
  bd_stored_table **t = &space->stored[space->weight[weight].like];
  if (*t) return *t;
  *t = BD_NEW(space->tables, bd_stored_table);
  (*t)->values = space->forward->values[weight].type.rank + 1 - BD_PARTIAL_SUM;
  int64_t forms = 1;
  for (int axis = 0; axis < space->request->cost.mesh.axes; axis++)
    forms *= (*t)->values;
  (*t)->by_made = BD_NEW_ARRAY(space->tables, known *, forms);
  return *t;
}

bd_stored_cost bd_layer_stored_cost(bd_layer_space *space, bd_id weight, const bd_weight_form *form,
                                    const int8_t split[BD_MAX_AXES]) {
  const bd_mesh *mesh = &space->request->cost.mesh;
  bd_sharding made = gradient_made(mesh, form, split);
  double product = bd_layer_weight_product(space, weight, split);
  bd_stored_table *table = table_of(space, weight);
  int64_t number = 0;
  for (int axis = 0; axis < mesh->axes; axis++)
    number = number * table->values + made.at[axis] - BD_PARTIAL_SUM;
  known **at = &table->by_made[number];
  while (*at && ((*at)->product != product || !bd_sharding_equal(&(*at)->stored, &form->stored) ||
                 !bd_sharding_equal(&(*at)->gradient, &form->gradient)))
    at = &(*at)->next;
  if (!*at) {
    *at = BD_NEW(space->tables, known);
    (*at)->stored = form->stored;
    (*at)->gradient = form->gradient;
    (*at)->product = product;
    (*at)->cost = reckon(space, weight, form, &made, product);
  }
  return (*at)->cost;
}
