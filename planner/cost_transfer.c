// Messages between stages.
#include "planner/cost.h"

bd_link bd_cost_stage_link(const bd_cost_model *model, int from, int to) {
  int devices = bd_mesh_devices(&model->mesh);
  return bd_cluster_link_between(model->cluster, from * devices, to * devices, devices);
}

double bd_cost_receive(const bd_cost_model *model, int from, int to, double bytes) {
  bd_link link = bd_cost_stage_link(model, from, to);
  return bd_cost_message(&link, bytes);
}

double bd_cost_copy(const bd_cost_model *model, double bytes) {
  return 2 * bytes / model->cluster->memory_bytes_per_second + model->cluster->kernel_seconds;
}
