// Failures that several ranks see at the same point.
#ifndef BD_RT_CPU_AGREE_H
#define BD_RT_CPU_AGREE_H
#include "runtime/cpu/rt.h"

// Collective. 0 when every rank passes 0; else the status of the lowest rank that failed, which
// alone says its message.
static inline int bd_rt_agree(bd_rt *rt, int status, const char *message) {
  int mine = status ? rt->rank : rt->ranks, first = mine;
  MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (first == rt->ranks) return 0;
  if (first == rt->rank) bd_rt_say("%s", message);
  MPI_Bcast(&status, 1, MPI_INT, first, MPI_COMM_WORLD);
  return status;
}
#endif
