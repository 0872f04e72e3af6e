#include "planner/cost/sync.h"
#include "ir/memory.h"
#include <math.h>

// One use of a weight: what of it is told for every use, and what once for all of them.
typedef struct sync_seconds {
  double each, once;
} sync_seconds;

// An accumulator is cleared once a use. The norm reads its sums and the update changes the weight
// once, both by the elements that a rank updates.
static sync_seconds passes(const bd_cost_model *cost, const char *optimizer, bd_dtype weight,
                           double accumulated, double updated) {
  double wide = (double)bd_dtype_bytes(bd_dtype_wide(weight));
  return (sync_seconds){
      bd_cost_update_pass(cost->cluster, accumulated * wide),
      bd_cost_update_pass(cost->cluster, updated * wide) +
          bd_cost_update_pass(cost->cluster,
                              updated * (double)bd_memory_update_bytes(optimizer, weight))};
}

// Every rank sums all and updates what its accumulator has.
static sync_seconds replicated_seconds(const bd_cost_model *cost, const char *optimizer,
                                       const bd_type *weight, const bd_sharding *form,
                                       const bd_sharding *gradient) {
  double own = bd_cost_local_elements(cost, weight, gradient),
         whole = bd_cost_local_elements(cost, weight, form);
  double bytes = own * (double)bd_dtype_bytes(bd_dtype_wide(weight->dtype));
  sync_seconds out = passes(cost, optimizer, weight->dtype, own, own);
  for (int axis = 0; axis < cost->mesh.axes; axis++) {
    if (gradient->at[axis] == BD_PARTIAL_SUM)
      out.each += bd_cost_all_reduce(cost, axis, bytes);
    else if (gradient->at[axis] >= 0 && form->at[axis] == BD_REPLICATED)
      out.once += bd_cost_exchange(cost, axis, whole * (double)bd_dtype_bytes(weight->dtype));
  }
  return out;
}

// Every rank of `axes`, which have replicas, sums and updates a part. Sums over other axes as well
// are made whole.
static sync_seconds split_seconds(const bd_cost_model *cost, const char *optimizer,
                                  const bd_type *weight, const bd_sharding *form,
                                  const bd_sharding *gradient, unsigned axes) {
  double elements = bd_cost_local_elements(cost, weight, form), parts = 1, all = 0, scattered = 0,
         gathered = 0;
  double bytes = elements * (double)bd_dtype_bytes(bd_dtype_wide(weight->dtype));
  unsigned summed = 0;
  for (int axis = 0; axis < cost->mesh.axes; axis++) {
    if (gradient->at[axis] == BD_PARTIAL_SUM && cost->mesh.size[axis] > 1) {
      summed |= 1u << axis;
      all += bd_cost_all_reduce(cost, axis, bytes);
      scattered += bd_cost_exchange(cost, axis, bytes);
    }
    if (!(axes >> axis & 1)) continue;
    parts *= cost->mesh.size[axis];
    gathered += bd_cost_exchange(cost, axis, elements * (double)bd_dtype_bytes(weight->dtype));
  }
  sync_seconds out = passes(cost, optimizer, weight->dtype, elements, elements / parts);
  out.each += summed == axes ? scattered : all;
  out.once += gathered;
  return out;
}

double bd_sync_seconds(const bd_cost_model *cost, const char *optimizer, const bd_type *weight,
                       const bd_sharding *form, const bd_sharding *gradient, bool may_split,
                       int uses) {
  sync_seconds whole = replicated_seconds(cost, optimizer, weight, form, gradient);
  double seconds = whole.each + whole.once / uses;
  bd_state_form states = bd_memory_state_form(&cost->mesh, form, gradient, may_split ? ~0u : 0);
  if (states.parts == 1) return seconds;
  unsigned axes = 0;
  for (int axis = 0; axis < cost->mesh.axes; axis++)
    if (form->at[axis] == BD_REPLICATED && cost->mesh.size[axis] > 1) axes |= 1u << axis;
  sync_seconds split = split_seconds(cost, optimizer, weight, form, gradient, axes);
  return fmin(seconds, split.each + split.once / uses);
}
