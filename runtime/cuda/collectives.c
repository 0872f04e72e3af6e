// Collectives along mesh axes, on the rank's stream. NCCL moves blocks of equal size; where a
// tensor does not lie that way they pass through the room of the library segment, piece by piece.
#include "runtime/cuda/rt.h"

static ncclDataType_t type_of(int dtype) {
  switch (dtype) {
  case BD_RT_F32:
    return ncclFloat32;
  case BD_RT_BF16:
    return ncclBfloat16;
  case BD_RT_F16:
    return ncclFloat16;
  default:
    break;
  }
  switch (bd_rt_element_bytes(dtype)) { // only moved
  case 1:
    return ncclUint8;
  case 2:
    return ncclFloat16;
  case 4:
    return ncclInt32;
  default:
    return ncclInt64;
  }
}

// One collective: what it moves, and between whom.
typedef struct transfer {
  bd_rt *rt;
  const bd_rt_group *group;
  ncclComm_t comm;
  int dtype;
  bd_cuda_cut cut; // of the buffer that holds all peers' parts
  int64_t block;   // elements
} transfer;

// Whether there is anything to do; while rehearsing the group is noted instead.
static int begin(transfer *t, bd_rt *rt, int mask, int dtype, const int64_t *extent, int own,
                 int peers) {
  *t = (transfer){.rt = rt, .group = &rt->group[mask], .dtype = dtype, .block = 1};
  t->cut = (bd_cuda_cut){.own = own, .peers = peers, .parts = t->group->size};
  for (int d = 0; d < 5; d++) {
    t->cut.extent[d] = extent[d];
    t->block *= d == own || d == peers ? bd_rt_padded_part(extent[d], t->group->size) : extent[d];
  }
  if (t->group->size > 1) t->comm = bd_cuda_comm(rt, t->group);
  return t->block > 0 && !rt->device->rehearsing;
}

// Elements of a piece when `blocks` pieces must lie in the room at once.
static int64_t piece_of(const transfer *t, int64_t blocks) {
  const int64_t most = t->rt->device->room_bytes / (bd_rt_element_bytes(t->dtype) * blocks);
  return most / BD_RT_ALIGNMENT * BD_RT_ALIGNMENT;
}

static char *at(const transfer *t, const void *data, int64_t element) {
  return (char *)(uintptr_t)data + element * bd_rt_element_bytes(t->dtype);
}

static void pack(const transfer *t, int first, int peers, int64_t from, int64_t count,
                 const void *buffer, void *blocks) {
  bd_cuda_pack(bd_cuda_now(t->rt), &t->cut, bd_rt_element_bytes(t->dtype), first, peers, from,
               count, buffer, blocks);
}

static void unpack(const transfer *t, int peers, int64_t from, int64_t count, const void *blocks,
                   void *buffer) {
  bd_cuda_unpack(bd_cuda_now(t->rt), &t->cut, bd_rt_element_bytes(t->dtype), 0, peers, from, count,
                 blocks, buffer);
}

static void all_gather(const transfer *t, const void *in, void *out, int64_t count) {
  BD_NCCL(t->rt, t->comm,
          ncclAllGather(in, out, (size_t)count, type_of(t->dtype), t->comm,
                        bd_cuda_now(t->rt)->stream));
}

static void reduce_scatter(const transfer *t, const void *in, void *out, int64_t count) {
  BD_NCCL(t->rt, t->comm,
          ncclReduceScatter(in, out, (size_t)count, type_of(t->dtype), ncclSum, t->comm,
                            bd_cuda_now(t->rt)->stream));
}

// Whether the parts of all peers lie one after another, each as a block.
static int is_plain(const transfer *t) {
  int64_t before = 1;
  for (int d = 0; d < t->cut.peers; d++)
    before *= t->cut.extent[d];
  return before == 1 && t->cut.extent[t->cut.peers] % t->cut.parts == 0;
}

// Log-sum-exp pairs are combined here, in rank order.
static void reduce_lse(const transfer *t, const float *in, float *out) {
  float *const pieces = (float *)(void *)t->rt->device->room;
  const int64_t most = piece_of(t, t->group->size);
  for (int64_t from = 0; from < t->block; from += most) {
    const int64_t count = t->block - from < most ? t->block - from : most;
    all_gather(t, in + from, pieces, count);
    bd_cuda_combine_lse(bd_cuda_now(t->rt), t->group->size, count, pieces, out + from);
  }
}

static void reduce(bd_rt *rt, int mask, int dtype, int combiner, int64_t count, const void *in,
                   void *out) {
  transfer t;
  const int64_t extent[5] = {count, 1, 1, 1, 1};
  if (!begin(&t, rt, mask, dtype, extent, -1, -1)) return;
  if (t.group->size == 1) {
    if (in != out) bd_rt_copy(rt, out, in, count * bd_rt_element_bytes(dtype));
    return;
  }
  if (combiner == BD_RT_LSE) {
    reduce_lse(&t, in, out);
    return;
  }
  BD_NCCL(rt, t.comm,
          ncclAllReduce(in, out, (size_t)count, type_of(dtype),
                        combiner == BD_RT_SUM ? ncclSum : ncclMax, t.comm,
                        bd_cuda_now(rt)->stream));
}

void bd_rt_reduce(bd_rt *rt, const bd_rt_group *group, int dtype, int combiner, int64_t count,
                  const void *in, void *out) {
  reduce(rt, group->mask, dtype, combiner, count, in, out);
}

void bd_rt_all_reduce(bd_rt *rt, int axis, int dtype, int combiner, int64_t count, const void *in,
                      void *out) {
  reduce(rt, 1 << axis, dtype, combiner, count, in, out);
}

// `own` holds `valid` elements of this rank's block; the rest of it is nowhere. With `inside` it
// lies in `out`, on every rank elsewhere: only as a whole block may it be sent from there.
static void gather(const transfer *t, const void *own, int64_t valid, int inside, void *out) {
  const int size = t->group->size;
  if (is_plain(t)) {
    all_gather(t, own, out, t->block);
    return;
  }
  char *const blocks = t->rt->device->room;
  const int64_t most = piece_of(t, size + 1);
  for (int64_t from = 0; from < t->block; from += most) {
    const int64_t count = t->block - from < most ? t->block - from : most;
    const int64_t here = valid - from < count ? valid - from : count;
    const char *source = at(t, own, from);
    if (inside) {
      char *const padded = at(t, blocks, size * most);
      if (here > 0) bd_rt_copy(t->rt, padded, source, here * bd_rt_element_bytes(t->dtype));
      source = padded;
    }
    all_gather(t, source, blocks, count);
    unpack(t, size, from, count, blocks, out);
  }
}

// The sum of this rank's block goes to `own`, which takes `valid` elements of it.
static void scatter(const transfer *t, const void *in, int64_t valid, void *own) {
  const int size = t->group->size;
  if (is_plain(t)) {
    reduce_scatter(t, in, own, t->block);
    return;
  }
  char *const blocks = t->rt->device->room;
  const int64_t most = piece_of(t, size + 1);
  char *const sum = at(t, blocks, size * most);
  for (int64_t from = 0; from < t->block; from += most) {
    const int64_t count = t->block - from < most ? t->block - from : most;
    const int64_t here = valid - from < count ? valid - from : count;
    pack(t, 0, size, from, count, in, blocks);
    reduce_scatter(t, blocks, sum, count);
    if (here > 0) bd_rt_copy(t->rt, at(t, own, from), sum, here * bd_rt_element_bytes(t->dtype));
  }
}

void bd_rt_all_gather(bd_rt *rt, int axis, int dtype, int64_t outer, int64_t extent, int64_t inner,
                      const void *in, void *out) {
  transfer t;
  const int64_t extents[5] = {outer, extent, inner, 1, 1};
  if (!begin(&t, rt, 1 << axis, dtype, extents, -1, 1)) return;
  if (t.group->size == 1)
    bd_rt_copy(rt, out, in, t.block * bd_rt_element_bytes(dtype));
  else
    gather(&t, in, t.block, 0, out);
}

void bd_rt_reduce_scatter(bd_rt *rt, int axis, int dtype, int64_t outer, int64_t extent,
                          int64_t inner, const void *in, void *out) {
  transfer t;
  const int64_t extents[5] = {outer, extent, inner, 1, 1};
  if (!begin(&t, rt, 1 << axis, dtype, extents, -1, 1)) return;
  if (t.group->size == 1)
    bd_rt_copy(rt, out, in, t.block * bd_rt_element_bytes(dtype));
  else
    scatter(&t, in, t.block, out);
}

void bd_rt_shard(bd_rt *rt, int axis, int dtype, int64_t outer, int64_t extent, int64_t inner,
                 const void *in, void *out) {
  const int64_t extents[5] = {outer, extent, inner, 1, 1};
  if (rt->device->rehearsing) return;
  transfer t;
  if (begin(&t, rt, 1 << axis, dtype, extents, -1, 1))
    pack(&t, t.group->rank, 1, 0, t.block, in, out);
}

static void exchange(const transfer *t, const char *give, char *take, int64_t count) {
  const size_t bytes = (size_t)(count * bd_rt_element_bytes(t->dtype));
  cudaStream_t stream = bd_cuda_now(t->rt)->stream;
  const size_t own = (size_t)t->group->rank * bytes;
  bd_cuda_accept(t->rt, ncclGroupStart(), "ncclGroupStart");
  for (int r = 0; r < t->group->size; r++) {
    const size_t at = (size_t)r * bytes;
    if (r == t->group->rank) continue;
    bd_cuda_accept(t->rt, ncclSend(give + at, bytes, ncclInt8, r, t->comm, stream), "ncclSend");
    bd_cuda_accept(t->rt, ncclRecv(take + at, bytes, ncclInt8, r, t->comm, stream), "ncclRecv");
  }
  BD_NCCL(t->rt, t->comm, ncclGroupEnd());
  bd_rt_copy(t->rt, take + own, give + own, (int64_t)bytes);
}

void bd_rt_all_to_all(bd_rt *rt, int axis, int dtype, int64_t outer, int64_t first, int64_t middle,
                      int64_t second, int64_t inner, int swapped, const void *in, void *out) {
  transfer from, to;
  const int64_t extents[5] = {outer, first, middle, second, inner};
  const int split = swapped ? 3 : 1, joined = swapped ? 1 : 3;
  if (!begin(&from, rt, 1 << axis, dtype, extents, joined, split)) return;
  begin(&to, rt, 1 << axis, dtype, extents, split, joined);
  const int size = from.group->size;
  if (size == 1) {
    bd_rt_copy(rt, out, in, from.block * bd_rt_element_bytes(dtype));
    return;
  }
  const int64_t most = piece_of(&from, 2 * size);
  char *const give = rt->device->room, *const take = at(&from, give, size * most);
  for (int64_t done = 0; done < from.block; done += most) {
    const int64_t count = from.block - done < most ? from.block - done : most;
    pack(&from, 0, size, done, count, in, give);
    exchange(&from, give, take, count);
    unpack(&to, size, done, count, take, out);
  }
}

void bd_rt_mirror(bd_rt *rt, int axis, int dtype, int64_t count, const void *in, void *out) {
  transfer t;
  const int64_t extents[5] = {count, 1, 1, 1, 1};
  if (!begin(&t, rt, 1 << axis, dtype, extents, -1, -1)) return;
  const int64_t bytes = count * bd_rt_element_bytes(dtype);
  const int other = t.group->size - 1 - t.group->rank;
  cudaStream_t stream = bd_cuda_now(rt)->stream;
  if (other == t.group->rank) {
    bd_rt_copy(rt, out, in, bytes);
    return;
  }
  bd_cuda_accept(rt, ncclGroupStart(), "ncclGroupStart");
  bd_cuda_accept(rt, ncclSend(in, (size_t)bytes, ncclInt8, other, t.comm, stream), "ncclSend");
  bd_cuda_accept(rt, ncclRecv(out, (size_t)bytes, ncclInt8, other, t.comm, stream), "ncclRecv");
  BD_NCCL(rt, t.comm, ncclGroupEnd());
}

void bd_rt_reduce_part(bd_rt *rt, const bd_rt_group *group, int dtype, int64_t count, void *data) {
  transfer t;
  int64_t start, own;
  const int64_t extents[5] = {count, 1, 1, 1, 1};
  bd_rt_part(count, group->size, group->rank, &start, &own);
  if (group->size > 1 && begin(&t, rt, group->mask, dtype, extents, -1, 0))
    scatter(&t, data, own, at(&t, data, start));
}

void bd_rt_gather_parts(bd_rt *rt, const bd_rt_group *group, int dtype, int64_t count, void *data) {
  transfer t;
  int64_t start, own;
  const int64_t extents[5] = {count, 1, 1, 1, 1};
  bd_rt_part(count, group->size, group->rank, &start, &own);
  if (group->size > 1 && begin(&t, rt, group->mask, dtype, extents, -1, 0))
    gather(&t, at(&t, data, start), own, 1, data);
}
