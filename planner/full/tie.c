#include "planner/full/tie.h"
#include "planner/pipeline/shared.h"
#include <math.h>

static double tie_of(const bd_full_space *space, const bd_floor_size *size, int parts) {
  const bd_full_group *group = &space->groups[size->group];
  bd_scene scene = bd_full_scene(space, size->group);
  bd_cluster cluster = bd_full_pair_cluster(space->cluster, group, group, size->devices, parts);
  bd_setting setting = {parts, {1, {size->devices}}, 1, bd_sharding_replicated()};
  scene.cluster = &cluster;
  return bd_shared_tie_seconds(&scene, &setting);
}

bd_full_ties bd_full_ties_open(bd_ctx *ctx, const bd_full_space *space, int size_count,
                               const bd_floor_size *sizes) {
  bd_full_ties out = {.size_count = size_count,
                      .most_parts = BD_FULL_MAX_STAGES * bd_full_chunks[BD_FULL_CHUNKS - 1]};
  if (out.most_parts > space->layer_count) out.most_parts = space->layer_count;
  out.seconds = BD_NEW_ARRAY(ctx->arena, double, size_count *(out.most_parts + 1));
  for (int i = 0; i < size_count; i++) {
    double *own = &out.seconds[i * (out.most_parts + 1)];
    for (int parts = out.most_parts; parts > 1 && space->bounded; parts--) {
      own[parts] = tie_of(space, &sizes[i], parts);
      if (parts < out.most_parts) own[parts] = fmin(own[parts], own[parts + 1]);
    }
  }
  return out;
}

double bd_full_tie_seconds(const bd_full_ties *ties, int size, int parts) {
  if (parts < 2) parts = 2;
  if (parts > ties->most_parts) parts = ties->most_parts;
  return ties->seconds[size * (ties->most_parts + 1) + parts];
}

bool bd_full_ties_differ(const bd_full_ties *ties, int least_parts, int most_parts) {
  for (int i = 0; i < ties->size_count; i++)
    if (bd_full_tie_seconds(ties, i, least_parts) < bd_full_tie_seconds(ties, i, most_parts))
      return true;
  return false;
}
