// How a rank finds its place: stage, coordinates, groups.
#include "runtime/layout.h"
#include "runtime/rank.h"

char *bd_rt_arena(bd_rt *rt) {
  return rt->arena;
}
int bd_rt_rank(const bd_rt *rt) {
  return rt->rank;
}
int bd_rt_coord(const bd_rt *rt, int axis) {
  return rt->coord[axis];
}

void bd_rt_range(const bd_rt *rt, int64_t extent, uint32_t axes, int64_t *start, int64_t *count) {
  const bd_rt_group *const group = &rt->group[axes & ((1u << rt->program->axes) - 1)];
  bd_rt_part(extent, group->size, group->rank, start, count);
}

static int check_world(const bd_rt *rt) {
  const bd_rt_program *const program = rt->program;
  if (program->version != BD_RT_VERSION) {
    if (rt->rank == 0)
      bd_rt_say("program of version %d, runtime of version %d", program->version, BD_RT_VERSION);
    return BD_RT_EXIT_INTERNAL;
  }
  if (rt->ranks != program->stages * rt->devices) {
    if (rt->rank == 0)
      bd_rt_say("this program needs %d rank%s (%d stage%s of %d), but was started with %d",
                program->stages * rt->devices, program->stages * rt->devices == 1 ? "" : "s",
                program->stages, program->stages == 1 ? "" : "s", rt->devices, rt->ranks);
    return BD_RT_EXIT_WORLD;
  }
  return 0;
}

static bd_rt_group group_of(const bd_rt *rt, int mask) {
  bd_rt_group group = {.mask = mask};
  bd_rt_mesh_group(rt->program->axes, rt->program->mesh, mask, rt->coord, &group.size, &group.rank);
  return group;
}

int bd_rt_place_rank(bd_rt *rt) {
  const bd_rt_program *const program = rt->program;
  rt->devices = 1;
  for (int a = 0; a < program->axes; a++)
    rt->devices *= program->mesh[a];
  const int status = check_world(rt);
  if (status) return status;
  rt->stage_index = rt->rank / rt->devices;
  rt->mesh_rank = rt->rank % rt->devices;
  rt->stage = &program->stage[rt->stage_index];
  bd_rt_mesh_coord(program->axes, program->mesh, rt->mesh_rank, rt->coord);
  for (int mask = 0; mask < BD_RT_GROUPS; mask++)
    rt->group[mask] = group_of(rt, mask);
  return 0;
}
