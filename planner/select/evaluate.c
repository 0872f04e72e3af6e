#include "planner/select/problem.h"

#include <stdlib.h>

static int64_t largest_below(const int64_t *costs, size_t count, int64_t level) {
  int64_t most = 0;
  for (size_t i = 0; i < count; i++)
    most = costs[i] > most && costs[i] < level ? costs[i] : most;
  return most;
}

// A sum of costs, whose parts each fit: high * 2^32 + low.
typedef struct sum {
  uint64_t high, low;
} sum;

static void add(sum *s, int64_t cost) {
  s->low += (uint64_t)cost & UINT32_MAX;
  s->high += ((uint64_t)cost >> 32) + (s->low >> 32);
  s->low &= UINT32_MAX;
}

static sum total(const bd_select_problem *p, const int *choice) {
  sum s = {0, 0};
  for (int i = 0; i < p->nodes; i++)
    add(&s, p->cost[p->start[i] + (size_t)choice[i]]);
  for (int e = 0; e < p->edges; e++) {
    const bd_select_edge *edge = &p->edge[e];
    size_t columns = (size_t)bd_select_strategies(p, edge->to);
    add(&s, edge->matrix[(size_t)choice[edge->from] * columns + (size_t)choice[edge->to]]);
  }
  return s;
}

int64_t bd_select_cost(const bd_select_problem *p, const int *choice) {
  sum s = total(p, choice);
  return s.high > INT32_MAX ? INT64_MAX : (int64_t)(s.high << 32 | s.low);
}

bool bd_select_cheaper(const bd_select_problem *p, const int *choice, const int *than) {
  sum a = total(p, choice), b = total(p, than);
  return a.high != b.high ? a.high < b.high : a.low < b.low;
}

// The largest sum of costs below `level`, one per node and edge.
static double largest_sum(const bd_select_problem *p, int64_t level) {
  double sum = 0;
  for (int i = 0; i < p->nodes; i++)
    sum += (double)largest_below(p->cost + p->start[i], (size_t)bd_select_strategies(p, i), level);
  for (int e = 0; e < p->edges; e++) {
    const bd_select_edge *edge = &p->edge[e];
    size_t entries =
        (size_t)bd_select_strategies(p, edge->from) * (size_t)bd_select_strategies(p, edge->to);
    sum += (double)largest_below(edge->matrix, entries, level);
  }
  return sum;
}

int64_t bd_select_forbidden(const bd_select_problem *p) {
  const int64_t least = 1000000000000000, most = 1000 * least;
  for (int64_t level = least; level <= most; level *= 10)
    if (largest_sum(p, level) < (double)level) return level;
  return INT64_MAX;
}

typedef struct change {
  int64_t time, usage; // negative usage: an end
} change;

// Ends come before starts of the same time: intervals are half-open.
static int by_time(const void *a, const void *b) {
  const change *x = a, *y = b;
  if (x->time != y->time) return x->time < y->time ? -1 : 1;
  return (x->usage > y->usage) - (x->usage < y->usage);
}

int64_t bd_select_peak(bd_ctx *ctx, const bd_select_problem *p, const int *choice,
                       int64_t *out_time) {
  change *changes = BD_NEW_ARRAY(ctx->arena, change, 2 * (size_t)p->nodes);
  size_t count = 0;
  for (int i = 0; i < p->nodes; i++) {
    int64_t usage = p->usage[p->start[i] + (size_t)choice[i]];
    if (p->lower[i] >= p->upper[i] || usage == 0) continue;
    changes[count++] = (change){p->lower[i], usage};
    changes[count++] = (change){p->upper[i], -usage};
  }
  qsort(changes, count, sizeof *changes, by_time);
  int64_t now = 0, peak = 0;
  for (size_t i = 0; i < count; i++) {
    now += changes[i].usage;
    if (now <= peak) continue;
    peak = now;
    if (out_time) *out_time = changes[i].time;
  }
  return peak;
}
