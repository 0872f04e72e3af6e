// Tensors that change the dimension that is cut over a group, by rectangles between every two
// ranks.
#include "runtime/cpu/boxes.h"

// Rank r gets box `give(r)` of `in` and sends what fills box `take(r)` of `out`.
typedef bd_rt_box (*box_of)(const bd_rt_group *group, const int64_t *extents, int other);

static void exchange_boxes(bd_rt *rt, const bd_rt_group *group, int dtype, const int64_t *extents,
                           box_of give, const void *in, box_of take, void *out) {
  bd_rt_exchange exchange = {.rt = rt, .group = group, .dtype = dtype};
  for (int r = 0; r < group->size; r++) {
    const bd_rt_box mine = give(group, extents, r), theirs = take(group, extents, r);
    if (r == group->rank) {
      bd_rt_box_copy(dtype, &mine, in, &theirs, out);
      continue;
    }
    bd_rt_receive_box(&exchange, &theirs, out, r);
    bd_rt_send_box(&exchange, &mine, in, r);
  }
  bd_rt_exchange_end(&exchange);
}

// extents: outer, first, middle, second, inner. The box of a whole tensor that rank `other` holds
// when dimension `split` is cut.
static bd_rt_box whole_split(const bd_rt_group *group, const int64_t *extents, int split,
                             int other) {
  bd_rt_box b = {.dims = {extents[0], extents[1], extents[2], extents[3], extents[4]},
                 .size = {extents[0], extents[1], extents[2], extents[3], extents[4]}};
  bd_rt_part(extents[split], group->size, other, &b.start[split], &b.size[split]);
  return b;
}

// The box that a rank finds in its buffer when `local` is already cut to this rank's part (padded)
// and `split`, whole in the buffer, is cut to rank `other`'s.
static bd_rt_box local_split(const bd_rt_group *group, const int64_t *extents, int local, int split,
                             int other) {
  bd_rt_box b = whole_split(group, extents, split, other);
  int64_t start;
  bd_rt_part(extents[local], group->size, group->rank, &start, &b.size[local]);
  b.dims[local] = bd_rt_padded_part(extents[local], group->size);
  return b;
}

static bd_rt_box first_of_local_second(const bd_rt_group *group, const int64_t *extents,
                                       int other) {
  return local_split(group, extents, 3, 1, other);
}
static bd_rt_box second_of_local_first(const bd_rt_group *group, const int64_t *extents,
                                       int other) {
  return local_split(group, extents, 1, 3, other);
}
static bd_rt_box second_of_whole(const bd_rt_group *group, const int64_t *extents, int other) {
  return whole_split(group, extents, 3, other);
}
static bd_rt_box own_part(const bd_rt_group *group, const int64_t *extents, int other) {
  (void)other;
  bd_rt_box b = whole_split(group, extents, 3, group->rank);
  b.dims[3] = bd_rt_padded_part(extents[3], group->size);
  b.start[3] = 0;
  return b;
}

void bd_rt_all_gather(bd_rt *rt, int axis, int dtype, int64_t outer, int64_t extent, int64_t inner,
                      const void *in, void *out) {
  const int64_t extents[5] = {outer, 1, 1, extent, inner};
  exchange_boxes(rt, &rt->group[1 << axis], dtype, extents, own_part, in, second_of_whole, out);
}

void bd_rt_shard(bd_rt *rt, int axis, int dtype, int64_t outer, int64_t extent, int64_t inner,
                 const void *in, void *out) {
  const bd_rt_group *const group = &rt->group[1 << axis];
  const int64_t extents[5] = {outer, 1, 1, extent, inner};
  const bd_rt_box from = second_of_whole(group, extents, group->rank);
  const bd_rt_box to = own_part(group, extents, group->rank);
  bd_rt_box_copy(dtype, &from, in, &to, out);
}

void bd_rt_all_to_all(bd_rt *rt, int axis, int dtype, int64_t outer, int64_t first, int64_t middle,
                      int64_t second, int64_t inner, int swapped, const void *in, void *out) {
  const int64_t extents[5] = {outer, first, middle, second, inner};
  exchange_boxes(rt, &rt->group[1 << axis], dtype, extents,
                 swapped ? second_of_local_first : first_of_local_second, in,
                 swapped ? first_of_local_second : second_of_local_first, out);
}

void bd_rt_mirror(bd_rt *rt, int axis, int dtype, int64_t count, const void *in, void *out) {
  const bd_rt_group *const group = &rt->group[1 << axis];
  const int other = group->size - 1 - group->rank;
  const bd_rt_box row = {.dims = {1, 1, 1, 1, count}, .size = {1, 1, 1, 1, count}};
  bd_rt_exchange exchange = {.rt = rt, .group = group, .dtype = dtype};
  if (other == group->rank) {
    bd_rt_box_copy(dtype, &row, in, &row, out);
    return;
  }
  bd_rt_receive_row(&exchange, count, out, other);
  bd_rt_send_box(&exchange, &row, in, other);
  bd_rt_exchange_end(&exchange);
}

// Every call is over when it returns.
int bd_rt_runs_aside(const bd_rt *rt) {
  (void)rt;
  return 0;
}

void bd_rt_aside(bd_rt *rt, int slot) {
  (void)rt, (void)slot;
}

void bd_rt_back(bd_rt *rt) {
  (void)rt;
}

void bd_rt_join(bd_rt *rt) {
  (void)rt;
}

void bd_rt_await(bd_rt *rt, int slot) {
  (void)rt, (void)slot;
}
