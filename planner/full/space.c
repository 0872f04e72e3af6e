#include "planner/full/space.h"

enum { LARGER = 4 }; // sizes of stages are tried up to so many times those of the near plan

const int bd_full_chunks[BD_FULL_CHUNKS] = {2, 3, 4, 6};

static bool has_degrees(const bd_full_space *space) {
  return bd_constraints_have_degrees(space->request->constraints);
}

bool bd_full_has_size(const bd_full_space *space, int group, int devices) {
  const bd_full_group *g = &space->groups[group];
  const bd_mesh *pinned = &space->request->mesh;
  bd_mesh mesh;
  if (devices > g->count) return false;
  if (pinned->axes) return devices == bd_mesh_devices(pinned);
  if (has_degrees(space) && (!bd_constraints_mesh(space->request->constraints, devices, &mesh) ||
                             mesh.axes > BD_FULL_MAX_AXES))
    return false;
  int nodes = devices / g->node;
  if (devices % g->node) return g->node % devices == 0;
  return g->count / g->node % nodes == 0 || (nodes & (nodes - 1)) == 0;
}

// Links of a node without islands are alike, so that the order of two axes changes nothing there.
static bool is_twin(const bd_full_space *space, int group, const bd_mesh *mesh) {
  const bd_full_group *g = &space->groups[group];
  return mesh->axes == 2 && mesh->size[0] > mesh->size[1] && !space->request->constraints &&
         bd_mesh_devices(mesh) <= g->node && !g->cluster.node.island_devices;
}

int bd_full_meshes(bd_ctx *ctx, const bd_full_space *space, int group, int devices,
                   bd_mesh **out_meshes) {
  bd_mesh *all = *out_meshes = BD_NEW(ctx->arena, bd_mesh);
  *all = space->request->mesh;
  if (all->axes) return bd_mesh_devices(all) == devices;
  if (has_degrees(space)) return bd_constraints_mesh(space->request->constraints, devices, all);
  int kept = 0, count = bd_space_meshes(ctx, devices, 0, out_meshes);
  all = *out_meshes;
  for (int m = 0; m < count; m++)
    if (!is_twin(space, group, &all[m])) all[kept++] = all[m];
  return kept;
}

int bd_full_micro_batches(bd_ctx *ctx, const bd_plan_request *request, int64_t **out_sizes) {
  static const bd_mesh one = {1, {1}};
  int count = 0;
  *out_sizes = NULL;
  for (int pass = 0; pass < 2; pass++) {
    if (pass) *out_sizes = BD_NEW_ARRAY(ctx->arena, int64_t, count);
    count = 0;
    for (int64_t size = 1; size <= request->global_batch; size++) {
      if (request->global_batch % size) continue;
      if (request->micro_batch && size != request->micro_batch) continue;
      if (!bd_constraints_allow_micro_batch(request->constraints, &one, size)) continue;
      if (pass) (*out_sizes)[count] = size;
      count++;
    }
  }
  return count;
}

bd_scene bd_full_scene(const bd_full_space *space, int group) {
  const bd_full_group *g = &space->groups[group];
  return (bd_scene){.train = space->train,
                    .cluster = &g->cluster,
                    .request = space->request,
                    .runs = &space->runs,
                    .sequence = space->request->sequence,
                    .cap_bytes = g->cap_bytes,
                    .layers_cap_bytes = g->cap_bytes - bd_memory_library_bytes(space->train)};
}

static void add_mode(bd_full_space *space, int group, int far, int near) {
  bd_full_mode mode = {.group = group, .mesh = {2, {far, near}}};
  mode.first_axis = far == 1;
  mode.priced = far == 1 ? (bd_mesh){1, {near}} : mode.mesh;
  if (space->mode_count == BD_FULL_MAX_MODES) return;
  for (int n = 0; n < space->mode_count; n++) {
    const bd_full_mode *other = &space->modes[n];
    if (other->group == group && other->mesh.size[0] == far && other->mesh.size[1] == near) return;
  }
  space->modes[space->mode_count++] = mode;
}

static void add_mesh(bd_full_space *space, int group, const bd_mesh *mesh) {
  int far = mesh->axes > 1 ? mesh->size[0] : 1;
  if (bd_mesh_devices(mesh) <= space->groups[group].count)
    add_mode(space, group, far, mesh->size[mesh->axes - 1]);
}

// The shapes of one size: a line; with the near plan's last axis; with one that fills a node. Or
// the one that pinned degrees make.
static void add_size(bd_full_space *space, int group, int devices, const bd_plan *near) {
  int node = space->groups[group].node;
  bd_mesh mesh;
  if (has_degrees(space)) {
    bd_constraints_mesh(space->request->constraints, devices, &mesh);
    add_mesh(space, group, &mesh);
    return;
  }
  add_mode(space, group, 1, devices);
  int last = near && near->mesh.axes > 1 ? near->mesh.size[near->mesh.axes - 1] : 2;
  if (last > 1 && devices > last && devices % last == 0)
    add_mode(space, group, devices / last, last);
  if (node > 1 && devices > node && devices % node == 0)
    add_mode(space, group, devices / node, node);
}

// Sizes that keep a stage within a node, or are whole nodes, the near plan's first.
static void add_sizes(bd_full_space *space, int group, const bd_plan *near) {
  const bd_full_group *g = &space->groups[group];
  int wanted = near ? bd_mesh_devices(&near->mesh) : g->node;
  int share = bd_cluster_devices(space->cluster) / space->stages;
  while (!near && wanted > 1 && wanted > share)
    wanted /= 2;
  if (wanted > g->count) wanted = g->count;
  for (int factor = 1; factor <= LARGER; factor *= 2)
    for (int up = 0; up < (factor > 1 ? 2 : 1); up++) {
      int devices = up ? wanted * factor : wanted / factor;
      if (devices && (up || wanted % factor == 0) && bd_full_has_size(space, group, devices))
        add_size(space, group, devices, near);
    }
}

void bd_full_space_open(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                        const bd_plan_request *request, const bd_plan *near, bd_full_space *out) {
  *out = (bd_full_space){
      .train = train, .cluster = cluster, .request = request, .bounded = near != NULL};
  out->runs = bd_model_runs_find_whole(ctx, train, request->constraints);
  for (int r = 0; r < out->runs.count; r++)
    out->layer_count += out->runs.runs[r].calls;
  out->run_of_layer = BD_NEW_ARRAY(ctx->arena, int, out->layer_count);
  for (int r = 0, layer = 0; r < out->runs.count; r++)
    for (int i = 0; i < out->runs.runs[r].calls; i++)
      out->run_of_layer[layer++] = r;
  bd_full_groups(ctx, cluster, request->cap_bytes, &out->groups, &out->group_count);
  out->stages = request->stages ? request->stages : near ? near->stages : out->group_count;
  for (int g = 0; g < out->group_count; g++) {
    int before = out->mode_count;
    if (request->mesh.axes)
      add_mesh(out, g, &request->mesh);
    else
      add_sizes(out, g, near);
    for (int devices = out->groups[g].count; devices && out->mode_count == before; devices--)
      if (bd_full_has_size(out, g, devices)) add_size(out, g, devices, near);
  }
}

void bd_full_space_aim(bd_ctx *ctx, const bd_full_space *space, int size_count,
                       const bd_floor_size *sizes, int stages, bd_full_space *out) {
  *out = *space;
  out->mode_count = 0;
  out->stages = stages;
  for (int i = 0; i < size_count; i++) {
    bd_mesh *meshes;
    int count = bd_full_meshes(ctx, space, sizes[i].group, sizes[i].devices, &meshes);
    for (int m = 0; m < count; m++)
      if (meshes[m].axes <= BD_FULL_MAX_AXES) add_mesh(out, sizes[i].group, &meshes[m]);
  }
}
