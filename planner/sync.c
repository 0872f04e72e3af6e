#include "planner/sync.h"
#include "ir/memory.h"

static double elements_of(const bd_cost_model *cost, const bd_type *type,
                          const bd_sharding *sharding) {
  bd_type local = bd_local_type(&cost->mesh, sharding, type, cost->micro_batch);
  return (double)bd_type_elements(&local, 1);
}

double bd_sync_seconds(const bd_cost_model *cost, const char *optimizer, const bd_type *weight,
                       const bd_sharding *form, const bd_sharding *gradient) {
  double own = elements_of(cost, weight, gradient), whole = elements_of(cost, weight, form);
  double bytes = own * (double)bd_dtype_bytes(bd_dtype_wide(weight->dtype)), seconds = 0;
  for (int axis = 0; axis < cost->mesh.axes; axis++) {
    if (gradient->at[axis] == BD_PARTIAL_SUM)
      seconds += bd_cost_all_reduce(cost, axis, bytes);
    else if (gradient->at[axis] >= 0 && form->at[axis] == BD_REPLICATED)
      seconds += bd_cost_exchange(cost, axis, whole * (double)bd_dtype_bytes(weight->dtype));
  }
  return seconds + own * (double)bd_memory_update_bytes(optimizer, weight->dtype) /
                       cost->cluster->memory_bytes_per_second;
}
