// Sums over ranks, and the flat parts of a vector that ranks hold. Every sum runs in ascending rank
// order whatever its size, and nothing but the fixed scratch buffer is needed.
#include "runtime/cpu/combine.h"
#include "runtime/cpu/messages.h"

enum { SMALL = 2048, MESSAGE_ELEMENTS = 1 << 26 };

// Every rank's vector to every rank, combined locally: one round trip.
static void reduce_small(bd_rt *rt, const bd_rt_group *group, int dtype, int combiner,
                         int64_t count, const void *in, void *out) {
  MPI_Request *const request = rt->device->requests;
  void *const pieces = rt->scratch;
  const MPI_Datatype type = bd_rt_mpi_type(dtype);
  int requests = 0;
  for (int r = 0; r < group->size; r++) {
    if (r == group->rank) continue;
    MPI_Irecv(bd_rt_at(pieces, dtype, r * count), (int)count, type, r, BD_RT_COLLECTIVE_TAG,
              bd_rt_comm(rt, group), &request[requests++]);
    MPI_Isend(in, (int)count, type, r, BD_RT_COLLECTIVE_TAG, bd_rt_comm(rt, group),
              &request[requests++]);
  }
  bd_rt_copy_elements(bd_rt_at(pieces, dtype, group->rank * count), in, dtype, count);
  MPI_Waitall(requests, request, MPI_STATUSES_IGNORE);
  bd_rt_combine_pieces(dtype, combiner, group->size, count, count, pieces);
  bd_rt_copy_elements(out, pieces, dtype, count);
}

// Elements [done, done + most) of every rank's flat part of `data` (`part` long, the last ones
// shorter) go to that rank; this rank's combined piece is left at the start of the scratch. Returns
// its length.
static int64_t scatter_pieces(bd_rt *rt, const bd_rt_group *group, int dtype, int combiner,
                              int64_t count, int64_t done, int64_t most, const void *data) {
  MPI_Request *const request = rt->device->requests;
  const MPI_Datatype type = bd_rt_mpi_type(dtype);
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
      MPI_Irecv(bd_rt_at(rt->scratch, dtype, r * most), (int)own, type, r, BD_RT_COLLECTIVE_TAG,
                bd_rt_comm(rt, group), &request[requests++]);
    if (length > 0)
      MPI_Isend(bd_rt_at(data, dtype, to + done), (int)length, type, r, BD_RT_COLLECTIVE_TAG,
                bd_rt_comm(rt, group), &request[requests++]);
  }
  bd_rt_copy_elements(bd_rt_at(rt->scratch, dtype, group->rank * most),
                      bd_rt_at(data, dtype, start + done), dtype, own);
  MPI_Waitall(requests, request, MPI_STATUSES_IGNORE);
  if (own > 0) bd_rt_combine_pieces(dtype, combiner, group->size, most, own, rt->scratch);
  return own;
}

static void reduce_chunk(bd_rt *rt, const bd_rt_group *group, int dtype, int combiner,
                         int64_t count, const void *in, void *out) {
  const int64_t part = bd_rt_padded_part(count, group->size);
  const int64_t own = scatter_pieces(rt, group, dtype, combiner, count, 0, part, in);
  bd_rt_copy_elements(bd_rt_at(out, dtype, part * group->rank), rt->scratch, dtype, own);
  bd_rt_gather_parts(rt, group, dtype, count, out);
}

void bd_rt_reduce(bd_rt *rt, const bd_rt_group *group, int dtype, int combiner, int64_t count,
                  const void *in, void *out) {
  if (group->size == 1) {
    if (in != out) bd_rt_copy_elements(out, in, dtype, count);
    return;
  }
  if (count <= SMALL && count * group->size <= BD_RT_SCRATCH_FLOATS) {
    if (count > 0) reduce_small(rt, group, dtype, combiner, count, in, out);
    return;
  }
  const int64_t most = BD_RT_SCRATCH_FLOATS / group->size * group->size;
  for (int64_t done = 0; done < count; done += most) {
    const int64_t piece = count - done < most ? count - done : most;
    reduce_chunk(rt, group, dtype, combiner, piece, bd_rt_at(in, dtype, done),
                 bd_rt_at(out, dtype, done));
  }
}

void bd_rt_reduce_part(bd_rt *rt, const bd_rt_group *group, int dtype, int64_t count, void *data) {
  if (group->size == 1) return;
  const int64_t part = bd_rt_padded_part(count, group->size);
  const int64_t most = BD_RT_SCRATCH_FLOATS / group->size;
  for (int64_t done = 0; done < part; done += most) {
    const int64_t own = scatter_pieces(rt, group, dtype, BD_RT_SUM, count, done, most, data);
    bd_rt_copy_elements(bd_rt_at(data, dtype, part * group->rank + done), rt->scratch, dtype, own);
  }
}

void bd_rt_gather_parts(bd_rt *rt, const bd_rt_group *group, int dtype, int64_t count, void *data) {
  if (group->size == 1) return;
  const int64_t part = bd_rt_padded_part(count, group->size);
  const MPI_Datatype type = bd_rt_mpi_type(dtype);
  for (int64_t done = 0; done < part; done += MESSAGE_ELEMENTS) {
    int requests = 0;
    for (int r = 0; r < group->size; r++) {
      if (r == group->rank) continue;
      for (int sending = 0; sending < 2; sending++) {
        int64_t start, length;
        bd_rt_part(count, group->size, sending ? group->rank : r, &start, &length);
        length = length - done < MESSAGE_ELEMENTS ? length - done : MESSAGE_ELEMENTS;
        if (length <= 0) continue;
        char *const piece = bd_rt_at(data, dtype, start + done);
        MPI_Request *const request = &rt->device->requests[requests++];
        if (sending)
          MPI_Isend(piece, (int)length, type, r, BD_RT_COLLECTIVE_TAG, bd_rt_comm(rt, group),
                    request);
        else
          MPI_Irecv(piece, (int)length, type, r, BD_RT_COLLECTIVE_TAG, bd_rt_comm(rt, group),
                    request);
      }
    }
    MPI_Waitall(requests, rt->device->requests, MPI_STATUSES_IGNORE);
  }
}

void bd_rt_all_reduce(bd_rt *rt, int axis, int dtype, int combiner, int64_t count, const void *in,
                      void *out) {
  bd_rt_reduce(rt, &rt->group[1 << axis], dtype, combiner, count, in, out);
}
