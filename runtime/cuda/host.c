// Small host values that all ranks exchange.
#include "runtime/cuda/rt.h"

#include <stdlib.h>
#include <string.h>

typedef struct verdict {
  int32_t first, status;
} verdict;

static size_t ranks_seen(const bd_rt *rt) {
  return rt->rank == 0 ? (size_t)rt->ranks : 1;
}

int bd_rt_agree(bd_rt *rt, int status, const char *message) {
  bd_meeting *const meeting = rt->device->meeting;
  int32_t own = status, *const all = bd_rt_allocate(ranks_seen(rt), sizeof *all);
  verdict v = {.first = -1};
  if (bd_meeting_gather(meeting, &own, sizeof own, all)) bd_cuda_leave_early(rt);
  for (int r = rt->rank == 0 ? rt->ranks - 1 : -1; r >= 0; r--)
    if (all[r]) v = (verdict){r, all[r]};
  free(all);
  if (bd_meeting_broadcast(meeting, &v, sizeof v)) bd_cuda_leave_early(rt);
  if (v.first == rt->rank) bd_rt_say("%s", message);
  return v.status;
}

void bd_rt_sum_ranks(bd_rt *rt, double *values, int count) {
  bd_meeting *const meeting = rt->device->meeting;
  if (rt->device->rehearsing || rt->ranks == 1 || count == 0) return;
  const size_t bytes = (size_t)count * sizeof *values;
  double *const all = rt->rank == 0 ? bd_rt_allocate(ranks_seen(rt), bytes) : NULL;
  if (bd_meeting_gather(meeting, values, bytes, all)) bd_cuda_leave_early(rt);
  if (all) bd_rt_sum_rows(all, rt->ranks, count, values);
  free(all);
  if (bd_meeting_broadcast(meeting, values, bytes)) bd_cuda_leave_early(rt);
}

void bd_rt_gather_rows(bd_rt *rt, const int64_t *row, int fields, int64_t *rows) {
  if (bd_meeting_gather(rt->device->meeting, row, (size_t)fields * sizeof *row, rows))
    bd_cuda_leave_early(rt);
}

void bd_rt_merge_words(bd_rt *rt, uint32_t *words, int count) {
  const size_t bytes = (size_t)count * sizeof *words;
  uint32_t *const more = rt->rank == 0 ? bd_rt_allocate(1, bytes) : NULL;
  if (bd_meeting_merge(rt->device->meeting, words, (size_t)count, more)) bd_cuda_leave_early(rt);
  free(more);
}
