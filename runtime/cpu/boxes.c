#include "runtime/cpu/boxes.h"
#include "runtime/cpu/messages.h"

static int is_empty(const bd_rt_box *b) {
  return !(b->size[0] > 0 && b->size[1] > 0 && b->size[2] > 0 && b->size[3] > 0 && b->size[4] > 0);
}

static MPI_Datatype box_type(const bd_rt_box *b, int dtype) {
  int dims[5], start[5], size[5];
  for (int i = 0; i < 5; i++) {
    dims[i] = (int)b->dims[i];
    start[i] = (int)b->start[i];
    size[i] = (int)b->size[i];
  }
  MPI_Datatype type;
  MPI_Type_create_subarray(5, dims, size, start, MPI_ORDER_C, bd_rt_mpi_type(dtype), &type);
  MPI_Type_commit(&type);
  return type;
}

static int64_t box_at(const bd_rt_box *b, int64_t i, int64_t j, int64_t k, int64_t l) {
  return ((((b->start[0] + i) * b->dims[1] + b->start[1] + j) * b->dims[2] + b->start[2] + k) *
              b->dims[3] +
          b->start[3] + l) *
             b->dims[4] +
         b->start[4];
}

void bd_rt_box_copy(int dtype, const bd_rt_box *from, const void *in, const bd_rt_box *to,
                    void *out) {
  if (is_empty(from)) return;
  for (int64_t i = 0; i < from->size[0]; i++)
    for (int64_t j = 0; j < from->size[1]; j++)
      for (int64_t k = 0; k < from->size[2]; k++)
        for (int64_t l = 0; l < from->size[3]; l++)
          bd_rt_copy_elements(bd_rt_at(out, dtype, box_at(to, i, j, k, l)),
                              bd_rt_at(in, dtype, box_at(from, i, j, k, l)), dtype, from->size[4]);
}

static MPI_Datatype own_type(bd_rt_exchange *e, const bd_rt_box *b) {
  const MPI_Datatype type = box_type(b, e->dtype);
  e->rt->device->types[e->types++] = type;
  return type;
}

void bd_rt_send_box(bd_rt_exchange *e, const bd_rt_box *b, const void *in, int other) {
  if (is_empty(b)) return;
  MPI_Isend(in, 1, own_type(e, b), other, BD_RT_COLLECTIVE_TAG, bd_rt_comm(e->rt, e->group),
            &e->rt->device->requests[e->requests++]);
}

void bd_rt_receive_box(bd_rt_exchange *e, const bd_rt_box *b, void *out, int other) {
  if (is_empty(b)) return;
  MPI_Irecv(out, 1, own_type(e, b), other, BD_RT_COLLECTIVE_TAG, bd_rt_comm(e->rt, e->group),
            &e->rt->device->requests[e->requests++]);
}

void bd_rt_receive_row(bd_rt_exchange *e, int64_t count, void *out, int other) {
  if (count <= 0) return;
  MPI_Irecv(out, (int)count, bd_rt_mpi_type(e->dtype), other, BD_RT_COLLECTIVE_TAG,
            bd_rt_comm(e->rt, e->group), &e->rt->device->requests[e->requests++]);
}

void bd_rt_exchange_end(bd_rt_exchange *e) {
  MPI_Waitall(e->requests, e->rt->device->requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < e->types; i++)
    MPI_Type_free(&e->rt->device->types[i]);
}
