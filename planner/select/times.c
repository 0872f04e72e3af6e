#include "planner/select/domain.h"

#include <stdlib.h>

typedef struct event {
  int64_t time;
  int node;
  bool start;
} event;

// Ends before starts of the same time: intervals are half-open.
static int by_time(const void *a, const void *b) {
  const event *x = a, *y = b;
  if (x->time != y->time) return x->time < y->time ? -1 : 1;
  if (x->start != y->start) return x->start - y->start;
  return x->node - y->node;
}

static int64_t largest_usage(const bd_select_problem *p, int node) {
  int64_t most = 0;
  for (size_t s = p->start[node]; s < p->start[node + 1]; s++)
    most = p->usage[s] > most ? p->usage[s] : most;
  return most;
}

bd_select_times bd_select_find_times(bd_ctx *ctx, const bd_select_problem *p) {
  size_t n = (size_t)p->nodes;
  bd_select_times times = {.first = BD_NEW_ARRAY(ctx->arena, int, n),
                           .last = BD_NEW_ARRAY(ctx->arena, int, n)};
  event *events = BD_NEW_ARRAY(ctx->arena, event, 2 * n);
  size_t count = 0;
  for (int i = 0; i < p->nodes; i++) {
    if (p->lower[i] >= p->upper[i] || largest_usage(p, i) == 0) continue;
    events[count++] = (event){p->lower[i], i, true};
    events[count++] = (event){p->upper[i], i, false};
  }
  qsort(events, count, sizeof *events, by_time);
  // A set is maximal when a start is followed by an end.
  int64_t now = 0;
  for (size_t e = 0; e < count; e++) {
    int node = events[e].node;
    if (events[e].start) {
      times.first[node] = times.points;
      now += largest_usage(p, node);
      bool maximal = e + 1 < count && !events[e + 1].start;
      times.points += maximal && now > p->limit;
    } else {
      times.last[node] = times.points;
      now -= largest_usage(p, node);
    }
  }
  return times;
}
