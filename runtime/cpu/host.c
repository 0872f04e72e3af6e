// Small values that all ranks exchange.
#include "runtime/cpu/rt.h"

int bd_rt_agree(bd_rt *rt, int status, const char *message) {
  int mine = status ? rt->rank : rt->ranks, first = mine;
  MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (first == rt->ranks) return 0;
  if (first == rt->rank) bd_rt_say("%s", message);
  MPI_Bcast(&status, 1, MPI_INT, first, MPI_COMM_WORLD);
  return status;
}

void bd_rt_sum_ranks(bd_rt *rt, double *values, int count) {
  MPI_Allgather(values, count, MPI_DOUBLE, rt->device->gathered, count, MPI_DOUBLE, MPI_COMM_WORLD);
  bd_rt_sum_rows(rt->device->gathered, rt->ranks, count, values);
}

void bd_rt_gather_rows(bd_rt *rt, const int64_t *row, int fields, int64_t *rows) {
  (void)rt;
  MPI_Gather(row, fields, MPI_INT64_T, rows, fields, MPI_INT64_T, 0, MPI_COMM_WORLD);
}

void bd_rt_merge_words(bd_rt *rt, uint32_t *words, int count) {
  const void *const from = rt->rank == 0 ? MPI_IN_PLACE : words;
  MPI_Reduce(from, words, count, MPI_UINT32_T, MPI_BOR, 0, MPI_COMM_WORLD);
}
