// Messages between stages.
#include "planner/cost/cost.h"
#include <math.h>

// Whether both stages stand on devices of the cluster. Where they do not, the cluster is a part of
// another, and their messages go between nodes, if there are several.
static bool stand(const bd_cost_model *model, int from, int to) {
  int last = from > to ? from : to;
  return (last + 1) * bd_mesh_devices(&model->mesh) <= bd_cluster_devices(model->cluster);
}

bd_link bd_cost_stage_link(const bd_cost_model *model, int from, int to) {
  int devices = bd_mesh_devices(&model->mesh);
  if (!stand(model, from, to))
    return model->cluster->nodes > 1 ? model->cluster->inter : model->cluster->intra;
  return bd_cluster_link_between(model->cluster, from * devices, to * devices, devices);
}

double bd_cost_receive(const bd_cost_model *model, int from, int to, double bytes) {
  bd_link link = bd_cost_stage_link(model, from, to);
  return bd_cost_message(&link, bytes);
}

double bd_cost_copy(const bd_cost_model *model, double bytes) {
  return 2 * bytes / model->cluster->memory_bytes_per_second + model->cluster->kernel_seconds;
}

// Nodes are numbered group after group.
static int node_of(const bd_cluster *cluster, int device) {
  int node = 0;
  for (int g = 0; g < cluster->group_count; g++) {
    const bd_node_group *group = &cluster->groups[g];
    if (device < group->nodes * group->devices_per_node)
      return node + device / group->devices_per_node;
    device -= group->nodes * group->devices_per_node;
    node += group->nodes;
  }
  return node + device / cluster->devices_per_node;
}

bd_transfer bd_cost_transfer(const bd_cost_model *model, int from, int to, double bytes) {
  double seconds = bd_cost_receive(model, from, to, bytes);
  double move = bytes / bd_cost_stage_link(model, from, to).bytes_per_second;
  int devices = bd_mesh_devices(&model->mesh);
  bool known = stand(model, from, to);
  bd_transfer out = {fmax(0, seconds - move), move, !known && model->cluster->nodes > 1};
  for (int rank = 0; known && rank < devices && !out.between_nodes; rank++)
    out.between_nodes = node_of(model->cluster, from * devices + rank) !=
                        node_of(model->cluster, to * devices + rank);
  return out;
}
