#include "planner/full/stage.h"

static bd_full_group make_group(bd_ctx *ctx, const bd_cluster *cluster, int first, int count,
                                int node, int64_t cap_bytes) {
  bd_full_group out = {.first = first, .count = count, .node = node};
  out.cap_bytes = bd_cluster_cap_bytes(cluster, first, count);
  if (cap_bytes && cap_bytes < out.cap_bytes) out.cap_bytes = cap_bytes;
  bd_cluster_part(ctx, cluster, first, count, &out.cluster);
  return out;
}

void bd_full_groups(bd_ctx *ctx, const bd_cluster *cluster, int64_t cap_bytes,
                    bd_full_group **out_groups, int *out_count) {
  int count = bd_cluster_is_mixed(cluster) ? cluster->group_count : 1, first = 0;
  bd_full_group *groups = BD_NEW_ARRAY(ctx->arena, bd_full_group, count);
  for (int g = 0; g < count; g++) {
    int node = cluster->devices_per_node, nodes = cluster->nodes;
    if (bd_cluster_is_mixed(cluster)) {
      node = cluster->groups[g].devices_per_node;
      nodes = cluster->groups[g].nodes;
    }
    groups[g] = make_group(ctx, cluster, first, nodes * node, node, cap_bytes);
    first += nodes * node;
  }
  *out_groups = groups;
  *out_count = count;
}

int bd_full_group_of(const bd_full_group *groups, int count, int device) {
  for (int g = 0; g < count; g++)
    if (device >= groups[g].first && device < groups[g].first + groups[g].count) return g;
  return -1;
}

static int devices_of(const bd_node_group *group) {
  return group->nodes * group->devices_per_node;
}

bool bd_full_range_of(bd_ctx *ctx, const bd_cluster *cluster, const bd_plan *plan,
                      bd_full_range *out) {
  int first = bd_plan_first_device(plan, 0), end = first + bd_plan_ranks(plan), start = 0;
  bool begins = false;
  if (!bd_cluster_is_mixed(cluster) || !bd_plan_is_one_program(plan)) return false;
  *out = (bd_full_range){.first = first};
  for (int g = 0; g < cluster->group_count && start < end; g++) {
    begins = begins || start == first;
    start += devices_of(&cluster->groups[g]);
  }
  out->count = start - first;
  if (!begins || end > start || out->count == bd_cluster_devices(cluster)) return false;
  bd_cluster_part(ctx, cluster, first, out->count, &out->cluster);
  return true;
}

void bd_full_shift(bd_ctx *ctx, int first_device, bd_plan *plan) {
  if (!first_device) return;
  int *first = BD_NEW_ARRAY(ctx->arena, int, plan->stages);
  for (int s = 0; s < plan->stages; s++)
    first[s] = first_device + bd_plan_first_device(plan, s);
  plan->stage_device = first;
}

const char *bd_full_name_groups(bd_ctx *ctx, const bd_cluster *cluster, const bd_plan *plan) {
  const char *names = "";
  int start = 0, named = 0;
  for (int g = 0; g < cluster->group_count; g++) {
    const bd_node_group *group = &cluster->groups[g];
    int end = start + devices_of(group);
    bool used = false;
    for (int s = 0; s < plan->stages; s++) {
      int first = bd_plan_first_device(plan, s);
      used = used || (first < end && first + bd_mesh_devices(bd_plan_mesh(plan, s)) > start);
    }
    start = end;
    if (!used) continue;
    names = bd_intern_f(ctx, "%s%s%s:%dx%d", names, named ? "+" : "",
                        cluster->kinds[group->kind].name, group->nodes, group->devices_per_node);
    named++;
  }
  return named < cluster->group_count ? names : "";
}

bd_cluster bd_full_pair_cluster(const bd_cluster *cluster, const bd_full_group *own,
                                const bd_full_group *other, int devices, int stages) {
  bd_cluster out = own->cluster;
  int64_t wanted = (int64_t)devices * stages;
  int island = out.node.island_devices;
  if (own != other) {
    bd_link between = bd_cluster_link_between(cluster, own->first, other->first, 1);
    bool slower = between.bytes_per_second < out.inter.bytes_per_second;
    if (out.nodes == 1 || devices <= out.devices_per_node || slower) out.inter = between;
    // A node for each stage, so that all that is sent goes between nodes.
    if (devices < out.devices_per_node) {
      out.devices_per_node = devices;
      if (island >= devices) out.intra = out.node.island;
      if (island >= devices || (island && devices % island)) out.node.island_devices = 0;
    }
  } else if (out.nodes == 1) {
    while (out.devices_per_node < wanted)
      out.devices_per_node *= 2;
  }
  if ((int64_t)out.nodes * out.devices_per_node < wanted)
    out.nodes = (int)((wanted + out.devices_per_node - 1) / out.devices_per_node);
  return out;
}
