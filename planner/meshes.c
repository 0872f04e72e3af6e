#include "planner/meshes.h"

enum { FINER_DEVICES = 64 }; // on more of them, meshes have two axes at most

// Three axes are tried on clusters where that leaves the space small. A pinned mesh may have axes
// that the space does not. Meshes that differ in the order of their axes are different ones, even
// where all links are equal: a dimension that several axes split is split by the first of them
// first, and only the last of them can be taken back on its own.
int bd_meshes_of_stage(bd_ctx *ctx, const bd_scene *scene, int devices, bd_mesh **out_meshes) {
  const bd_plan_request *request = scene->request;
  const bd_cluster *cluster = scene->cluster;
  bd_mesh *all = *out_meshes = BD_NEW(ctx->arena, bd_mesh);
  *all = request->mesh;
  if (request->mesh.axes) return bd_mesh_devices(all) == devices;
  if (bd_constraints_have_degrees(request->constraints))
    return bd_constraints_mesh(request->constraints, devices, all);
  bool finer = bd_cluster_devices(cluster) <= FINER_DEVICES;
  int count = bd_space_meshes(ctx, devices, finer ? cluster->devices_per_node : 0, &all);
  *out_meshes = all;
  return count;
}
