#include "planner/select/merge.h"

#include <stdlib.h>
#include <string.h>

static int64_t sum(int64_t a, int64_t b) {
  int64_t both;
  return __builtin_add_overflow(a, b, &both) ? INT64_MAX : both;
}

// An edge by its nodes in ascending order.
typedef struct joint {
  int low, high, edge;
} joint;

static int by_nodes(const void *a, const void *b) {
  const joint *x = a, *y = b;
  if (x->low != y->low) return x->low - y->low;
  if (x->high != y->high) return x->high - y->high;
  return x->edge - y->edge;
}

// Adds a matrix, turned when its rows belong to the higher node.
static void add_matrix(const bd_select_problem *p, const bd_select_edge *edge, int low,
                       int64_t *out) {
  size_t rows = (size_t)bd_select_strategies(p, edge->from);
  size_t columns = (size_t)bd_select_strategies(p, edge->to);
  for (size_t i = 0; i < rows; i++) {
    for (size_t j = 0; j < columns; j++) {
      int64_t *to = out + (edge->from == low ? i * columns + j : j * rows + i);
      *to = sum(*to, edge->matrix[i * columns + j]);
    }
  }
}

// Matrices turned so far, so that equal ones stay shared: an open-addressed table by source. The
// number of rows tells apart equal content of different shape.
typedef struct turned {
  const int64_t *source, *result;
  int rows;
} turned;

typedef struct turning {
  turned *slot;
  size_t slots; // a power of two, more than twice the edges
} turning;

static const int64_t *turn(bd_arena *arena, turning *done, const bd_select_problem *p,
                           const bd_select_edge *edge) {
  int rows = bd_select_strategies(p, edge->from);
  size_t at =
      ((size_t)edge->matrix / sizeof(int64_t) * 0x9e3779b97f4a7c15u >> 20) & (done->slots - 1);
  for (; done->slot[at].source; at = (at + 1) & (done->slots - 1))
    if (done->slot[at].source == edge->matrix && done->slot[at].rows == rows)
      return done->slot[at].result;
  size_t entries = (size_t)rows * (size_t)bd_select_strategies(p, edge->to);
  int64_t *result = BD_NEW_ARRAY(arena, int64_t, entries);
  add_matrix(p, edge, edge->to, result);
  done->slot[at] = (turned){edge->matrix, result, rows};
  return result;
}

// Node costs with those of loops added.
static int64_t *add_loops(bd_arena *arena, const bd_select_problem *p) {
  size_t strategies = p->start[p->nodes];
  int64_t *cost = BD_NEW_ARRAY(arena, int64_t, strategies);
  memcpy(cost, p->cost, strategies * sizeof *cost);
  for (int e = 0; e < p->edges; e++) {
    const bd_select_edge *edge = &p->edge[e];
    if (edge->from != edge->to) continue;
    size_t count = (size_t)bd_select_strategies(p, edge->to);
    int64_t *of_node = cost + p->start[edge->to];
    for (size_t s = 0; s < count; s++)
      of_node[s] = sum(of_node[s], edge->matrix[s * count + s]);
  }
  return cost;
}

// The matrix of edges that join the same nodes.
static const int64_t *join(bd_arena *arena, turning *done, const bd_select_problem *p,
                           const joint *joints, size_t count) {
  const bd_select_edge *first = &p->edge[joints->edge];
  if (count == 1) return first->from < first->to ? first->matrix : turn(arena, done, p, first);
  size_t entries =
      (size_t)bd_select_strategies(p, joints->low) * (size_t)bd_select_strategies(p, joints->high);
  int64_t *all = BD_NEW_ARRAY(arena, int64_t, entries);
  for (size_t k = 0; k < count; k++)
    add_matrix(p, &p->edge[joints[k].edge], joints->low, all);
  return all;
}

bd_select_problem bd_select_merge(bd_ctx *ctx, const bd_select_problem *p) {
  bd_arena *arena = ctx->arena;
  bd_select_problem merged = *p;
  merged.cost = add_loops(arena, p);
  merged.edge = BD_NEW_ARRAY(arena, bd_select_edge, p->edges);
  merged.edges = 0;
  joint *joints = BD_NEW_ARRAY(arena, joint, p->edges);
  size_t count = 0;
  for (int e = 0; e < p->edges; e++) {
    int from = p->edge[e].from, to = p->edge[e].to;
    if (from != to) joints[count++] = from < to ? (joint){from, to, e} : (joint){to, from, e};
  }
  qsort(joints, count, sizeof *joints, by_nodes);
  turning done = {.slots = 16};
  while (done.slots <= 2 * count)
    done.slots *= 2;
  done.slot = BD_NEW_ARRAY(arena, turned, done.slots);
  for (size_t k = 0, next; k < count; k = next) {
    for (next = k + 1;
         next < count && joints[next].low == joints[k].low && joints[next].high == joints[k].high;)
      next++;
    merged.edge[merged.edges++] = (bd_select_edge){joints[k].low, joints[k].high,
                                                   join(arena, &done, p, joints + k, next - k)};
  }
  return merged;
}
