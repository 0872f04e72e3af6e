#include "planner/meshes.h"

enum { FINER_DEVICES = 64 }; // on more of them, meshes have two axes, but for nested loops
enum { MOST_NESTS = 4 };     // different ones that are looked at

// The extents of a loop and of the one it runs within.
typedef struct nest {
  int64_t inner, outer;
} nest;

static int add_nest(nest nests[MOST_NESTS], int count, nest added) {
  for (int i = 0; i < count; i++)
    if (nests[i].inner == added.inner && nests[i].outer == added.outer) return count;
  if (count < MOST_NESTS) nests[count++] = added;
  return count;
}

static int nests_of_op(bd_ctx *ctx, const bd_function *function, const bd_op *op,
                       nest nests[MOST_NESTS], int count) {
  bd_index_map map;
  bd_type types[BD_MAX_RESULTS];
  if (bd_op_infer(ctx, function, op, &map, types) != BD_OK) return count;
  for (int i = 0; i < map.loops; i++)
    if (map.loop[i].within >= 0 && map.loop[i].extent > 1)
      count =
          add_nest(nests, count, (nest){map.loop[i].extent, map.loop[map.loop[i].within].extent});
  return count;
}

// Nested loops of the model's forward functions.
static int find_nests(bd_ctx *ctx, const bd_module *train, nest nests[MOST_NESTS]) {
  int count = 0;
  for (int f = 0; f < train->function_count; f++) {
    const bd_function *function = train->functions[f];
    for (int i = 0; function->role != BD_ROLE_BACKWARD && i < function->op_count; i++)
      if (bd_op_get_info(function->ops[i].kind)->level == BD_LOGICAL)
        count = nests_of_op(ctx, function, &function->ops[i], nests, count);
  }
  return count;
}

static bool is_listed(const bd_mesh *meshes, int count, const bd_mesh *mesh) {
  for (int i = 0; i < count; i++)
    if (bd_mesh_same(&meshes[i], mesh)) return true;
  return false;
}

// Adds the meshes whose last axis, of at most `most` ranks, is two: one for the indices of an outer
// loop that are fewer than these ranks, one for the rest within each. Returns how many there are.
static int add_nested(bd_ctx *ctx, const bd_module *train, int most, int count, bd_mesh **meshes) {
  nest nests[MOST_NESTS];
  int found = find_nests(ctx, train, nests), plain = count;
  if (!found) return count;
  *meshes = bd_arena_grow(ctx->arena, *meshes, (size_t)count, (size_t)(count * (1 + found)),
                          sizeof **meshes);
  for (int i = 0; i < plain * found; i++) {
    bd_mesh mesh = (*meshes)[i / found];
    const nest *n = &nests[i % found];
    int ranks = mesh.size[mesh.axes - 1];
    if (mesh.axes == BD_MAX_AXES || ranks > most || n->outer < 2 || n->outer >= ranks ||
        ranks % n->outer || n->inner % (ranks / n->outer))
      continue;
    mesh.size[mesh.axes - 1] = (int)n->outer;
    mesh.size[mesh.axes++] = ranks / (int)n->outer;
    if (!is_listed(*meshes, count, &mesh)) (*meshes)[count++] = mesh;
  }
  return count;
}

// Three axes are tried on clusters where that leaves the space small, and where a model's nested
// loops are cut no other way; pinned degrees have an axis each, and two of features for these. A
// pinned mesh may have axes that the space does not. Meshes that differ in the order of their axes
// are different ones, even where all links are equal: a dimension that several axes split is split
// by the first of them first, and only the last of them can be taken back on its own.
int bd_meshes_of_stage(bd_ctx *ctx, const bd_scene *scene, int devices, bd_mesh **out_meshes) {
  const bd_plan_request *request = scene->request;
  const bd_cluster *cluster = scene->cluster;
  bd_mesh *all = *out_meshes = BD_NEW(ctx->arena, bd_mesh);
  int count = 1, node = cluster->devices_per_node;
  *all = request->mesh;
  if (request->mesh.axes) return bd_mesh_devices(all) == devices;
  if (bd_constraints_have_degrees(request->constraints)) {
    if (!bd_constraints_mesh(request->constraints, devices, all)) return 0;
    if (bd_constraints_has_feature_axis(request->constraints, all))
      count = add_nested(ctx, scene->train, devices, count, &all);
  } else {
    bool finer = bd_cluster_devices(cluster) <= FINER_DEVICES;
    count = bd_space_meshes(ctx, devices, finer ? node : 0, &all);
    if (!finer) count = add_nested(ctx, scene->train, node, count, &all);
  }
  *out_meshes = all;
  return count;
}
