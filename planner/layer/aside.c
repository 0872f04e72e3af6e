#include "planner/layer/aside.h"
#include <math.h>

static bd_aside offloaded(const bd_cost_model *cost, int64_t bytes) {
  double rate = cost->cluster->node.host_bytes_per_second;
  double seconds = rate > 0 ? (double)bytes / rate : INFINITY;
  return (bd_aside){seconds, seconds, bytes, bytes, bytes};
}

static bd_aside compressed(const bd_cost_model *cost, int64_t bytes, int64_t elements) {
  const bd_cluster *cluster = cost->cluster;
  int64_t small = bd_align(elements);
  if (small >= bytes) return (bd_aside){INFINITY, INFINITY, 0, 0, 0};
  double seconds =
      (double)(bytes + small) / cluster->memory_bytes_per_second + cluster->kernel_seconds;
  return (bd_aside){seconds, seconds, bytes - small, bytes, 0};
}

bd_aside bd_aside_value(const bd_cost_model *cost, const bd_type *local, bd_kept kept) {
  int64_t elements = bd_type_elements(local, 1);
  int64_t bytes = bd_align(elements * bd_dtype_bytes(local->dtype));
  if (kept == BD_KEPT_OFFLOADED) return offloaded(cost, bytes);
  if (kept == BD_KEPT_COMPRESSED) return compressed(cost, bytes, elements);
  return (bd_aside){0, 0, 0, 0, 0};
}

bd_aside bd_aside_of(const bd_cost_model *cost, const bd_function *forward,
                     const bd_strategy *strategy) {
  bd_aside sum = {0, 0, 0, 0, 0};
  for (int v = 0; strategy->kept && v < strategy->value_count; v++) {
    bd_type local =
        bd_local_type(&cost->mesh, &strategy->form[v], &forward->values[v].type, cost->micro_batch);
    bd_aside one = bd_aside_value(cost, &local, (bd_kept)strategy->kept[v]);
    sum.forward_seconds += one.forward_seconds;
    sum.backward_seconds += one.backward_seconds;
    sum.tape_bytes += one.tape_bytes;
    sum.host_bytes += one.host_bytes;
    if (one.room_bytes > sum.room_bytes) sum.room_bytes = one.room_bytes;
  }
  return sum;
}
