#include "planner/least.h"
#include "ir/memory.h"

int64_t bd_least_room_bytes(const bd_cluster *cluster, const bd_plan_request *request) {
  int64_t cap = cluster->memory_bytes - cluster->reserved_bytes;
  return request->cap_bytes && request->cap_bytes < cap ? request->cap_bytes : cap;
}

double bd_least_bytes(const bd_module *train, const bd_plan_request *request) {
  double bytes = 0;
  for (int i = 0; i < train->weight_count; i++) {
    const bd_weight *weight = &train->weights[i];
    bd_dtype dtype = weight->type.dtype;
    int64_t each = bd_dtype_bytes(dtype) + bd_dtype_bytes(bd_weight_gradient_dtype(weight)) +
                   bd_optimizer_state_bytes(request->optimizer, request->masters, dtype);
    bytes += (double)bd_type_elements(&weight->type, 1) * (double)each;
  }
  return bytes;
}

bool bd_least_fits(const bd_module *train, const bd_cluster *cluster,
                   const bd_plan_request *request) {
  double room = (double)bd_least_room_bytes(cluster, request) * bd_cluster_devices(cluster);
  return bd_least_bytes(train, request) <= room;
}
