// Collectives over point-to-point messages. Every sum runs in ascending rank order whatever its
// size, and nothing but the fixed scratch buffer is needed.
#include "runtime/cpu/halves.h"
#include "runtime/cpu/rt.h"

#include <math.h>
#include <string.h>

enum { TAG = 1, SMALL = 2048, MESSAGE_ELEMENTS = 1 << 26, WIDE = 1024 };

static MPI_Comm comm_of(const bd_rt *rt, const bd_rt_group *group) {
  return rt->device->comm[group->mask];
}

// What elements are moved as.
static MPI_Datatype type_of(int dtype) {
  switch (bd_rt_element_bytes(dtype)) {
  case 1:
    return MPI_UINT8_T;
  case 2:
    return MPI_UINT16_T;
  case 4:
    return dtype == BD_RT_F32 ? MPI_FLOAT : MPI_UINT32_T;
  default:
    return MPI_UINT64_T;
  }
}

static char *at(const void *data, int dtype, int64_t element) {
  return (char *)(uintptr_t)data + element * bd_rt_element_bytes(dtype);
}

static void copy(void *to, const void *from, int dtype, int64_t count) {
  if (count > 0) memcpy(to, from, (size_t)(count * bd_rt_element_bytes(dtype)));
}

// out = out (combiner) in, element by element.
static void combine(int combiner, float *restrict out, const float *restrict in, int64_t count) {
  if (combiner == BD_RT_SUM) {
    for (int64_t i = 0; i < count; i++)
      out[i] += in[i];
  } else if (combiner == BD_RT_MAX) {
    for (int64_t i = 0; i < count; i++)
      out[i] = in[i] > out[i] || in[i] != in[i] ? in[i] : out[i];
  } else {
    for (int64_t i = 0; i < count; i++) {
      const float most = in[i] > out[i] ? in[i] : out[i], least = in[i] > out[i] ? out[i] : in[i];
      out[i] = most == -INFINITY ? most : most + log1pf(expf(least - most));
    }
  }
}

// The same of halves: wide from the first piece to the last, rounded once.
static void combine_halves(int dtype, int combiner, int size, int64_t stride, int64_t count,
                           uint16_t *pieces) {
  float sum[WIDE], next[WIDE];
  for (int64_t from = 0; from < count; from += WIDE) {
    const int64_t length = count - from < WIDE ? count - from : WIDE;
    for (int r = 0; r < size; r++) {
      bd_rt_widen_run(dtype, pieces + r * stride + from, r ? next : sum, length);
      if (r) combine(combiner, sum, next, length);
    }
    bd_rt_narrow_run(dtype, sum, pieces + from, length);
  }
}

// Adds up `size` pieces that lie `stride` apart, into the first.
static void combine_pieces(int dtype, int combiner, int size, int64_t stride, int64_t count,
                           void *pieces) {
  if (bd_rt_is_half(dtype)) {
    combine_halves(dtype, combiner, size, stride, count, pieces);
    return;
  }
  float *const floats = pieces;
  for (int r = 1; r < size; r++)
    combine(combiner, floats, floats + r * stride, count);
}

// Every rank's vector to every rank, combined locally: one round trip.
static void reduce_small(bd_rt *rt, const bd_rt_group *group, int dtype, int combiner,
                         int64_t count, const void *in, void *out) {
  MPI_Request *const request = rt->device->requests;
  void *const pieces = rt->scratch;
  const MPI_Datatype type = type_of(dtype);
  int requests = 0;
  for (int r = 0; r < group->size; r++) {
    if (r == group->rank) continue;
    MPI_Irecv(at(pieces, dtype, r * count), (int)count, type, r, TAG, comm_of(rt, group),
              &request[requests++]);
    MPI_Isend(in, (int)count, type, r, TAG, comm_of(rt, group), &request[requests++]);
  }
  copy(at(pieces, dtype, group->rank * count), in, dtype, count);
  MPI_Waitall(requests, request, MPI_STATUSES_IGNORE);
  combine_pieces(dtype, combiner, group->size, count, count, pieces);
  copy(out, pieces, dtype, count);
}

// Elements [done, done + most) of every rank's flat part of `data` (`part` long, the last ones
// shorter) go to that rank; this rank's combined piece is left at the start of the scratch. Returns
// its length.
static int64_t scatter_pieces(bd_rt *rt, const bd_rt_group *group, int dtype, int combiner,
                              int64_t count, int64_t done, int64_t most, const void *data) {
  MPI_Request *const request = rt->device->requests;
  const MPI_Datatype type = type_of(dtype);
  int64_t start, own;
  bd_rt_part(count, group->size, group->rank, &start, &own);
  own = own - done < most ? own - done : most;
  int requests = 0;
  for (int r = 0; r < group->size; r++) {
    int64_t to, length;
    bd_rt_part(count, group->size, r, &to, &length);
    length = length - done < most ? length - done : most;
    if (r == group->rank) continue;
    if (own > 0)
      MPI_Irecv(at(rt->scratch, dtype, r * most), (int)own, type, r, TAG, comm_of(rt, group),
                &request[requests++]);
    if (length > 0)
      MPI_Isend(at(data, dtype, to + done), (int)length, type, r, TAG, comm_of(rt, group),
                &request[requests++]);
  }
  copy(at(rt->scratch, dtype, group->rank * most), at(data, dtype, start + done), dtype, own);
  MPI_Waitall(requests, request, MPI_STATUSES_IGNORE);
  if (own > 0) combine_pieces(dtype, combiner, group->size, most, own, rt->scratch);
  return own;
}

static void reduce_chunk(bd_rt *rt, const bd_rt_group *group, int dtype, int combiner,
                         int64_t count, const void *in, void *out) {
  const int64_t part = (count + group->size - 1) / group->size;
  const int64_t own = scatter_pieces(rt, group, dtype, combiner, count, 0, part, in);
  copy(at(out, dtype, part * group->rank), rt->scratch, dtype, own);
  bd_rt_gather_parts(rt, group, dtype, count, out);
}

static void reduce(bd_rt *rt, const bd_rt_group *group, int dtype, int combiner, int64_t count,
                   const void *in, void *out) {
  if (group->size == 1) {
    if (in != out) copy(out, in, dtype, count);
    return;
  }
  if (count <= SMALL && count * group->size <= BD_RT_SCRATCH_FLOATS) {
    if (count > 0) reduce_small(rt, group, dtype, combiner, count, in, out);
    return;
  }
  const int64_t most = BD_RT_SCRATCH_FLOATS / group->size * group->size;
  for (int64_t done = 0; done < count; done += most) {
    const int64_t piece = count - done < most ? count - done : most;
    reduce_chunk(rt, group, dtype, combiner, piece, at(in, dtype, done), at(out, dtype, done));
  }
}

void bd_rt_reduce(bd_rt *rt, const bd_rt_group *group, int combiner, int64_t count, const float *in,
                  float *out) {
  reduce(rt, group, BD_RT_F32, combiner, count, in, out);
}

void bd_rt_reduce_part(bd_rt *rt, const bd_rt_group *group, int64_t count, float *data) {
  if (group->size == 1) return;
  const int64_t part = (count + group->size - 1) / group->size;
  const int64_t most = BD_RT_SCRATCH_FLOATS / group->size;
  for (int64_t done = 0; done < part; done += most) {
    const int64_t own = scatter_pieces(rt, group, BD_RT_F32, BD_RT_SUM, count, done, most, data);
    copy(data + part * group->rank + done, rt->scratch, BD_RT_F32, own);
  }
}

void bd_rt_gather_parts(bd_rt *rt, const bd_rt_group *group, int dtype, int64_t count, void *data) {
  if (group->size == 1) return;
  const int64_t part = (count + group->size - 1) / group->size;
  const MPI_Datatype type = type_of(dtype);
  for (int64_t done = 0; done < part; done += MESSAGE_ELEMENTS) {
    int requests = 0;
    for (int r = 0; r < group->size; r++) {
      if (r == group->rank) continue;
      for (int sending = 0; sending < 2; sending++) {
        int64_t start, length;
        bd_rt_part(count, group->size, sending ? group->rank : r, &start, &length);
        length = length - done < MESSAGE_ELEMENTS ? length - done : MESSAGE_ELEMENTS;
        if (length <= 0) continue;
        char *const piece = at(data, dtype, start + done);
        MPI_Request *const request = &rt->device->requests[requests++];
        if (sending)
          MPI_Isend(piece, (int)length, type, r, TAG, comm_of(rt, group), request);
        else
          MPI_Irecv(piece, (int)length, type, r, TAG, comm_of(rt, group), request);
      }
    }
    MPI_Waitall(requests, rt->device->requests, MPI_STATUSES_IGNORE);
  }
}

// A rectangle of a row-major array of five dimensions.
typedef struct box {
  int64_t dims[5], start[5], size[5];
} box;

static int box_empty(const box *b) {
  return !(b->size[0] > 0 && b->size[1] > 0 && b->size[2] > 0 && b->size[3] > 0 && b->size[4] > 0);
}

static MPI_Datatype box_type(const box *b, int dtype) {
  int dims[5], start[5], size[5];
  for (int i = 0; i < 5; i++) {
    dims[i] = (int)b->dims[i];
    start[i] = (int)b->start[i];
    size[i] = (int)b->size[i];
  }
  MPI_Datatype type;
  MPI_Type_create_subarray(5, dims, size, start, MPI_ORDER_C, type_of(dtype), &type);
  MPI_Type_commit(&type);
  return type;
}

static int64_t box_at(const box *b, int64_t i, int64_t j, int64_t k, int64_t l) {
  return ((((b->start[0] + i) * b->dims[1] + b->start[1] + j) * b->dims[2] + b->start[2] + k) *
              b->dims[3] +
          b->start[3] + l) *
             b->dims[4] +
         b->start[4];
}

// Copies between boxes of equal sizes.
static void box_copy(int dtype, const box *from, const void *in, const box *to, void *out) {
  if (box_empty(from)) return;
  for (int64_t i = 0; i < from->size[0]; i++)
    for (int64_t j = 0; j < from->size[1]; j++)
      for (int64_t k = 0; k < from->size[2]; k++)
        for (int64_t l = 0; l < from->size[3]; l++)
          copy(at(out, dtype, box_at(to, i, j, k, l)), at(in, dtype, box_at(from, i, j, k, l)),
               dtype, from->size[4]);
}

// Rank r gets box `give(r)` of `in` and sends what fills box `take(r)` of `out`.
typedef box (*box_of)(const bd_rt_group *group, const int64_t *extents, int other);

static void exchange_boxes(bd_rt *rt, const bd_rt_group *group, int dtype, const int64_t *extents,
                           box_of give, const void *in, box_of take, void *out) {
  int requests = 0, types = 0;
  for (int r = 0; r < group->size; r++) {
    const box mine = give(group, extents, r), theirs = take(group, extents, r);
    if (r == group->rank) {
      box_copy(dtype, &mine, in, &theirs, out);
      continue;
    }
    if (!box_empty(&theirs)) {
      rt->device->types[types] = box_type(&theirs, dtype);
      MPI_Irecv(out, 1, rt->device->types[types++], r, TAG, comm_of(rt, group),
                &rt->device->requests[requests++]);
    }
    if (!box_empty(&mine)) {
      rt->device->types[types] = box_type(&mine, dtype);
      MPI_Isend(in, 1, rt->device->types[types++], r, TAG, comm_of(rt, group),
                &rt->device->requests[requests++]);
    }
  }
  MPI_Waitall(requests, rt->device->requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < types; i++)
    MPI_Type_free(&rt->device->types[i]);
}

static int64_t part_of(int64_t extent, const bd_rt_group *group) {
  return (extent + group->size - 1) / group->size;
}

// extents: outer, first, middle, second, inner. The box of a whole tensor that rank `index` holds
// when dimension `split` is cut, further cut at `other_dim` to what rank `other` holds.
static box whole_split(const bd_rt_group *group, const int64_t *extents, int split, int other) {
  box b = {.dims = {extents[0], extents[1], extents[2], extents[3], extents[4]},
           .size = {extents[0], extents[1], extents[2], extents[3], extents[4]}};
  bd_rt_part(extents[split], group->size, other, &b.start[split], &b.size[split]);
  return b;
}

// The box that a rank finds in its buffer when `local` is already cut to this rank's part (padded)
// and `split`, whole in the buffer, is cut to rank `other`'s.
static box local_split(const bd_rt_group *group, const int64_t *extents, int local, int split,
                       int other) {
  box b = whole_split(group, extents, split, other);
  int64_t start;
  bd_rt_part(extents[local], group->size, group->rank, &start, &b.size[local]);
  b.dims[local] = part_of(extents[local], group);
  return b;
}

static box first_of_local_second(const bd_rt_group *group, const int64_t *extents, int other) {
  return local_split(group, extents, 3, 1, other);
}
static box second_of_local_first(const bd_rt_group *group, const int64_t *extents, int other) {
  return local_split(group, extents, 1, 3, other);
}
static box second_of_whole(const bd_rt_group *group, const int64_t *extents, int other) {
  return whole_split(group, extents, 3, other);
}
static box own_part(const bd_rt_group *group, const int64_t *extents, int other) {
  (void)other;
  box b = whole_split(group, extents, 3, group->rank);
  b.dims[3] = part_of(extents[3], group);
  b.start[3] = 0;
  return b;
}

void bd_rt_all_reduce(bd_rt *rt, int axis, int dtype, int combiner, int64_t count, const void *in,
                      void *out) {
  reduce(rt, &rt->group[1 << axis], dtype, combiner, count, in, out);
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
  const box from = second_of_whole(group, extents, group->rank);
  const box to = own_part(group, extents, group->rank);
  box_copy(dtype, &from, in, &to, out);
}

void bd_rt_all_to_all(bd_rt *rt, int axis, int dtype, int64_t outer, int64_t first, int64_t middle,
                      int64_t second, int64_t inner, int swapped, const void *in, void *out) {
  const int64_t extents[5] = {outer, first, middle, second, inner};
  exchange_boxes(rt, &rt->group[1 << axis], dtype, extents,
                 swapped ? second_of_local_first : first_of_local_second, in,
                 swapped ? first_of_local_second : second_of_local_first, out);
}

// One piece of a reduce-scatter: outer rows [row, row + rows), and of each part's flattened
// (extent, inner) the elements [from, from + length).
typedef struct scatter {
  int64_t extent, inner;
  int64_t row, rows, from, length;
} scatter;

static box scatter_box(const scatter *s, const bd_rt_group *group, int64_t outer, int other) {
  int64_t start, count;
  bd_rt_part(s->extent, group->size, other, &start, &count);
  int64_t length = count * s->inner - s->from;
  length = length < s->length ? length : s->length;
  return (box){.dims = {1, 1, 1, outer, s->extent * s->inner},
               .start = {0, 0, 0, s->row, start * s->inner + s->from},
               .size = {1, 1, 1, s->rows, length}};
}

static void scatter_piece(bd_rt *rt, const bd_rt_group *group, int dtype, const scatter *s,
                          int64_t outer, const void *in, void *out) {
  const box own = scatter_box(s, group, outer, group->rank);
  const int64_t length = own.size[4] > 0 ? own.size[4] : 0, count = s->rows * length;
  const box packed = {.dims = {1, 1, 1, s->rows, length}, .size = {1, 1, 1, s->rows, length}};
  int requests = 0, types = 0;
  for (int r = 0; r < group->size; r++) {
    if (r == group->rank) continue;
    if (count > 0)
      MPI_Irecv(at(rt->scratch, dtype, r * count), (int)count, type_of(dtype), r, TAG,
                comm_of(rt, group), &rt->device->requests[requests++]);
    const box theirs = scatter_box(s, group, outer, r);
    if (!box_empty(&theirs)) {
      rt->device->types[types] = box_type(&theirs, dtype);
      MPI_Isend(in, 1, rt->device->types[types++], r, TAG, comm_of(rt, group),
                &rt->device->requests[requests++]);
    }
  }
  box_copy(dtype, &own, in, &packed, at(rt->scratch, dtype, group->rank * count));
  MPI_Waitall(requests, rt->device->requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < types; i++)
    MPI_Type_free(&rt->device->types[i]);
  combine_pieces(dtype, BD_RT_SUM, group->size, count, count, rt->scratch);
  const int64_t part = part_of(s->extent, group) * s->inner;
  const box to = {.dims = {1, 1, 1, outer, part},
                  .start = {0, 0, 0, s->row, s->from},
                  .size = {1, 1, 1, s->rows, length}};
  box_copy(dtype, &packed, rt->scratch, &to, out);
}

void bd_rt_reduce_scatter(bd_rt *rt, int axis, int dtype, int64_t outer, int64_t extent,
                          int64_t inner, const void *in, void *out) {
  const bd_rt_group *const group = &rt->group[1 << axis];
  const int64_t part = part_of(extent, group) * inner;
  const int64_t most = BD_RT_SCRATCH_FLOATS / group->size;
  scatter s = {.extent = extent, .inner = inner};
  if (part <= most) {
    s.length = part;
    const int64_t rows = part > 0 ? most / part : 0;
    for (s.row = 0; rows > 0 && s.row < outer; s.row += rows) {
      s.rows = outer - s.row < rows ? outer - s.row : rows;
      scatter_piece(rt, group, dtype, &s, outer, in, out);
    }
    return;
  }
  s.rows = 1;
  for (s.row = 0; s.row < outer; s.row++)
    for (s.from = 0; s.from < part; s.from += most) {
      s.length = part - s.from < most ? part - s.from : most;
      scatter_piece(rt, group, dtype, &s, outer, in, out);
    }
}

// Every call is over when it returns.
int bd_rt_runs_aside(const bd_rt *rt) {
  (void)rt;
  return 0;
}

void bd_rt_aside(bd_rt *rt) {
  (void)rt;
}

void bd_rt_back(bd_rt *rt) {
  (void)rt;
}

void bd_rt_join(bd_rt *rt) {
  (void)rt;
}
