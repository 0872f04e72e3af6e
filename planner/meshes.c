#include "planner/meshes.h"

enum { FINER_DEVICES = 64 }; // on more of them, meshes have two axes at most

// Whether two meshes differ only in the order of axes whose rings run over equal links: whatever
// one can do the other can as well.
static bool is_alike(const bd_cluster *cluster, const bd_mesh *a, const bd_mesh *b) {
  bd_cost_model model_a = {cluster, *a, 1}, model_b = {cluster, *b, 1};
  unsigned taken = 0;
  for (int i = 0; i < a->axes; i++) {
    bd_link link = bd_cost_link(&model_a, i);
    int twin = 0;
    for (; twin < b->axes; twin++) {
      bd_link other = bd_cost_link(&model_b, twin);
      if (!(taken >> twin & 1u) && a->size[i] == b->size[twin] &&
          link.latency_seconds == other.latency_seconds &&
          link.bytes_per_second == other.bytes_per_second)
        break;
    }
    if (twin == b->axes) return false;
    taken |= 1u << twin;
  }
  return a->axes == b->axes;
}

// Three axes are tried on clusters where that leaves the space small. A pinned mesh may have axes
// that the space does not.
int bd_meshes_of_stage(bd_ctx *ctx, const bd_scene *scene, int devices, bd_mesh **out_meshes) {
  const bd_plan_request *request = scene->request;
  const bd_cluster *cluster = scene->cluster;
  bd_mesh *all = *out_meshes = BD_NEW(ctx->arena, bd_mesh);
  *all = request->mesh;
  if (request->mesh.axes) return bd_mesh_devices(all) == devices;
  if (bd_constraints_have_degrees(request->constraints))
    return bd_constraints_mesh(request->constraints, devices, all);
  bool finer = bd_cluster_devices(cluster) <= FINER_DEVICES;
  int kept = 0;
  int count = bd_space_meshes(ctx, devices, finer ? cluster->devices_per_node : 0, &all);
  for (int m = 0; m < count; m++) {
    bool again = false;
    // Constraints may name axes.
    for (int other = 0; !request->constraints && other < kept && !again; other++)
      again = is_alike(cluster, &all[m], &all[other]);
    if (!again) all[kept++] = all[m];
  }
  *out_meshes = all;
  return kept;
}
