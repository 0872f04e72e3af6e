#include "runtime/master.h"

#include "runtime/backend.h"

static bd_rt_local local_of(const bd_rt *rt, bd_rt_layout layout) {
  return bd_rt_local_of(&layout, rt->program->axes, rt->program->mesh, rt->coord);
}

bd_rt_local bd_rt_gradient_local(const bd_rt *rt, const bd_rt_weight *weight) {
  return local_of(rt, bd_rt_gradient_layout(weight));
}

bd_rt_rows bd_rt_rows_of(const bd_rt *rt, const bd_rt_weight *weight) {
  const bd_rt_local own = bd_rt_gradient_local(rt, weight);
  bd_rt_rows rows = {1, own.elements, own.elements, 0};
  if (!weight->cut_axis) return rows;
  const int axis = weight->cut_axis - 1;
  for (int d = 0; d < weight->cut_dim; d++)
    rows.outer *= own.extent[d];
  rows.row = rows.outer > 0 ? own.elements / rows.outer : 0;
  rows.stride = rows.row * rt->program->mesh[axis];
  rows.start = rows.row * rt->coord[axis];
  return rows;
}

bd_rt_share bd_rt_share_of(const bd_rt *rt, const bd_rt_weight *weight) {
  bd_rt_share share = {.zero = bd_rt_zero_mask(rt->program, weight)};
  share.group = &rt->group[share.zero];
  share.elements = bd_rt_gradient_local(rt, weight).elements;
  bd_rt_part(share.elements, share.group->size, share.group->rank, &share.start, &share.count);
  return share;
}

static float *floats_at(const bd_rt *rt, int64_t offset) {
  return (float *)(void *)(rt->arena + offset);
}

float *bd_rt_master(const bd_rt *rt, const bd_rt_weight *weight) {
  return bd_rt_has_master(weight) ? floats_at(rt, weight->state_offset) : NULL;
}

float *bd_rt_moments(const bd_rt *rt, const bd_rt_weight *weight) {
  return floats_at(rt, weight->state_offset) +
         (bd_rt_has_master(weight) ? weight->state_elements : 0);
}

void *bd_rt_plain(const bd_rt *rt, const bd_rt_weight *weight) {
  const int own = !bd_rt_master(rt, weight);
  return rt->arena + (own ? weight->weight_offset : weight->gradient_offsets[0]);
}

int bd_rt_plain_dtype(const bd_rt *rt, const bd_rt_weight *weight) {
  return bd_rt_master(rt, weight) ? BD_RT_F32 : weight->layout.dtype;
}

bd_rt_layout bd_rt_plain_layout(const bd_rt *rt, const bd_rt_weight *weight) {
  return bd_rt_master(rt, weight) ? bd_rt_gradient_layout(weight) : weight->layout;
}

bd_rt_local bd_rt_plain_local(const bd_rt *rt, const bd_rt_weight *weight) {
  return local_of(rt, bd_rt_plain_layout(rt, weight));
}

void bd_rt_store_plain(bd_rt *rt, const bd_rt_weight *weight) {
  float *const master = bd_rt_master(rt, weight);
  if (!master) return;
  const float *const wide = bd_rt_plain(rt, weight);
  const bd_rt_share share = bd_rt_share_of(rt, weight);
  const bd_rt_rows rows = bd_rt_rows_of(rt, weight);
  uint16_t *const halves = (uint16_t *)(void *)(rt->arena + weight->weight_offset);
  for (int64_t o = 0; o < rows.outer; o++)
    bd_rt_narrow(rt, weight->layout.dtype, wide + o * rows.row,
                 halves + rows.start + o * rows.stride, rows.row);
  if (share.count > 0)
    bd_rt_copy(rt, master, wide + share.start, share.count * (int64_t)sizeof *master);
  if (weight->cut_axis) bd_rt_gather_weight(rt, weight);
}

void bd_rt_load_plain(bd_rt *rt, const bd_rt_weight *weight) {
  const float *const master = bd_rt_master(rt, weight);
  if (!master) return;
  float *const wide = bd_rt_plain(rt, weight);
  const bd_rt_share share = bd_rt_share_of(rt, weight);
  if (share.count > 0)
    bd_rt_copy(rt, wide + share.start, master, share.count * (int64_t)sizeof *master);
  bd_rt_gather_parts(rt, share.group, BD_RT_F32, share.elements, wide);
}

// Rows whose parts fit the workspace go there and out again together; longer ones are gathered
// where they are, one by one.
static void gather_rows(bd_rt *rt, const bd_rt_weight *weight, const bd_rt_rows *rows) {
  const int axis = weight->cut_axis - 1, dtype = weight->layout.dtype;
  const int64_t bytes = bd_rt_element_bytes(dtype), parts = rt->program->mesh[axis];
  int64_t room;
  float *const piece = bd_rt_workspace(rt, &room);
  const int64_t most = rows->row > 0 ? room * (int64_t)sizeof *piece / (rows->row * bytes) : 0;
  for (int64_t o = 0; o < rows->outer && rows->row > 0; o += most > 0 ? most : 1) {
    char *const at = rt->arena + weight->weight_offset + o * rows->stride * bytes;
    const int64_t count = bd_rt_least(most, rows->outer - o);
    if (most == 0 || rows->outer == 1) {
      bd_rt_gather_parts(rt, &rt->group[1 << axis], dtype, rows->stride, at);
      continue;
    }
    bd_rt_shard(rt, axis, dtype, count, parts, rows->row, at, piece);
    bd_rt_all_gather(rt, axis, dtype, count, parts, rows->row, piece, at);
  }
}

void bd_rt_gather_weight(bd_rt *rt, const bd_rt_weight *weight) {
  const bd_rt_rows rows = bd_rt_rows_of(rt, weight);
  const bd_rt_share share = bd_rt_share_of(rt, weight);
  if (weight->cut_axis)
    gather_rows(rt, weight, &rows);
  else
    bd_rt_gather_parts(rt, share.group, weight->layout.dtype, share.elements,
                       rt->arena + weight->weight_offset);
}
