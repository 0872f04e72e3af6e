#include "runtime/master.h"

#include "runtime/backend.h"

bd_rt_share bd_rt_share_of(const bd_rt *rt, const bd_rt_weight *weight) {
  bd_rt_share share = {0};
  for (int a = 0; a < rt->program->axes; a++)
    if (rt->program->zero_axes >> a & 1 && weight->layout.at[a] < 0) share.zero |= 1 << a;
  share.group = &rt->group[share.zero];
  share.elements =
      bd_rt_local_of(&weight->layout, rt->program->axes, rt->program->mesh, rt->coord).elements;
  bd_rt_part(share.elements, share.group->size, share.group->rank, &share.start, &share.count);
  return share;
}

static float *floats_at(const bd_rt *rt, int64_t offset) {
  return (float *)(void *)(rt->arena + offset);
}

float *bd_rt_master(const bd_rt *rt, const bd_rt_weight *weight) {
  return weight->layout.dtype == BD_RT_F32 ? NULL : floats_at(rt, weight->state_offset);
}

float *bd_rt_wide(const bd_rt *rt, const bd_rt_weight *weight) {
  const int own = weight->layout.dtype == BD_RT_F32;
  return floats_at(rt, own ? weight->weight_offset : weight->gradient_offsets[0]);
}

void bd_rt_store_wide(bd_rt *rt, const bd_rt_weight *weight) {
  float *const master = bd_rt_master(rt, weight), *const wide = bd_rt_wide(rt, weight);
  if (!master) return;
  const bd_rt_share share = bd_rt_share_of(rt, weight);
  uint16_t *const halves = (uint16_t *)(void *)(rt->arena + weight->weight_offset);
  bd_rt_narrow(rt, wide, halves, share.elements);
  if (share.count > 0)
    bd_rt_copy(rt, master, wide + share.start, share.count * (int64_t)sizeof *master);
}

void bd_rt_load_wide(bd_rt *rt, const bd_rt_weight *weight) {
  float *const master = bd_rt_master(rt, weight), *const wide = bd_rt_wide(rt, weight);
  if (!master) return;
  const bd_rt_share share = bd_rt_share_of(rt, weight);
  if (share.count > 0)
    bd_rt_copy(rt, wide + share.start, master, share.count * (int64_t)sizeof *master);
  bd_rt_gather_parts(rt, share.group, BD_RT_F32, share.elements, wide);
}
