// What the collectives of this backend send: elements of a data type, between ranks of a group.
#ifndef BD_RT_CPU_MESSAGES_H
#define BD_RT_CPU_MESSAGES_H
#include "runtime/cpu/rt.h"

#include <string.h>

enum { BD_RT_COLLECTIVE_TAG = 1 };

static inline MPI_Comm bd_rt_comm(const bd_rt *rt, const bd_rt_group *group) {
  return rt->device->comm[group->mask];
}

// What elements are moved as.
static inline MPI_Datatype bd_rt_mpi_type(int dtype) {
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

static inline char *bd_rt_at(const void *data, int dtype, int64_t element) {
  return (char *)(uintptr_t)data + element * bd_rt_element_bytes(dtype);
}

static inline void bd_rt_copy_elements(void *to, const void *from, int dtype, int64_t count) {
  if (count > 0) memcpy(to, from, (size_t)(count * bd_rt_element_bytes(dtype)));
}
#endif
