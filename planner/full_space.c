#include "planner/full_space.h"

enum { LARGER = 4 }; // sizes of stages are tried up to so many times those of the near plan

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

// The shapes of one size: a line; with the near plan's last axis; with one that fills a node.
static void add_size(bd_full_space *space, int group, int devices, const bd_plan *near) {
  int node = space->groups[group].node;
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
      bool aligned = devices && (g->node % devices == 0 || devices % g->node == 0);
      if (aligned && devices <= g->count && (up || wanted % factor == 0))
        add_size(space, group, devices, near);
    }
}

static void add_pinned(bd_full_space *space, int group, const bd_mesh *mesh) {
  int far = mesh->axes > 1 ? mesh->size[0] : 1;
  if (bd_mesh_devices(mesh) <= space->groups[group].count)
    add_mode(space, group, far, mesh->size[mesh->axes - 1]);
}

void bd_full_space_open(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                        const bd_plan_request *request, const bd_plan *near, bd_full_space *out) {
  *out = (bd_full_space){.train = train, .cluster = cluster, .request = request};
  out->runs = bd_model_runs_find(ctx, train, request->constraints);
  for (int r = 0; r < out->runs.count; r++)
    out->layer_count += out->runs.runs[r].calls;
  out->run_of_layer = BD_NEW_ARRAY(ctx->arena, int, out->layer_count);
  for (int r = 0, layer = 0; r < out->runs.count; r++)
    for (int i = 0; i < out->runs.runs[r].calls; i++)
      out->run_of_layer[layer++] = r;
  bd_full_groups(ctx, cluster, request->cap_bytes, &out->groups, &out->group_count);
  out->stages = request->stages ? request->stages : near ? near->stages : out->group_count;
  for (int g = 0; g < out->group_count; g++) {
    if (request->mesh.axes)
      add_pinned(out, g, &request->mesh);
    else
      add_sizes(out, g, near);
  }
}
