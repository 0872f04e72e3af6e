// Choosing one strategy per node at least total cost, as the ASPLOS 2025 contest on intra-operator
// parallelism states it: a strategy costs something and uses memory while its node is alive; an
// edge costs something for each pair of strategies of its two nodes; at every time the usages of
// the nodes alive may not exceed one limit.
#ifndef BD_PLANNER_SELECT_PROBLEM_H
#define BD_PLANNER_SELECT_PROBLEM_H
#include "ir/base/context.h"

typedef struct bd_select_edge {
  int from, to; // may be equal, and several edges may join the same nodes: their costs add up
  // Row-major, a row per strategy of `from`; nonnegative. Equal matrices are stored once.
  const int64_t *matrix;
} bd_select_edge;

typedef struct bd_select_problem {
  const char *name; // as written, not decoded; "" when there is none
  int nodes, edges;
  int64_t *lower, *upper; // alive on [lower, upper); empty when lower >= upper
  size_t *start;          // nodes + 1: the first strategy of each node in `cost` and `usage`
  int64_t *cost, *usage;  // nonnegative; the largest usages of all nodes add up to below 2^62
  bd_select_edge *edge;
  int64_t limit; // INT64_MAX: none
  // A cost from here on (the contest writes 10^18) forbids the strategy or the pair: all smaller
  // costs together, one per node and edge, stay below. INT64_MAX: the costs are not so far apart,
  // and none forbids.
  int64_t forbidden;
} bd_select_problem;

static inline int bd_select_strategies(const bd_select_problem *problem, int node) {
  return (int)(problem->start[node + 1] - problem->start[node]);
}

// Reads the contest's JSON: {"problem": {"name", "nodes": {"intervals", "costs", "usages"},
// "edges": {"nodes", "costs"}, "usage_limit"}}, keys in any order, others skipped. Everything lives
// in ctx->arena; `data` is not needed afterwards. Errors: BD_INVALID with line and column.
BD_NODISCARD bd_status bd_select_read(bd_ctx *ctx, const char *file, const char *data, size_t bytes,
                                      bd_select_problem *out_problem);

// Whether the text begins as such a problem does.
bool bd_select_recognize(const char *data, size_t bytes);

// What `forbidden` is for the costs of a problem: the first of 10^15, 10^16, 10^17 and 10^18 that
// will do.
int64_t bd_select_forbidden(const bd_select_problem *problem);

// The cost of a choice (a strategy per node), INT64_MAX when it does not fit in 64 bits.
int64_t bd_select_cost(const bd_select_problem *problem, const int *choice);

// Whether one choice costs less than another, also where their costs do not fit in 64 bits: with
// many forbidden costs the fewer count.
bool bd_select_cheaper(const bd_select_problem *problem, const int *choice, const int *than);

// The largest sum of usages over time, and a time of it unless `out_time` is NULL. Scratch is in
// ctx->arena.
int64_t bd_select_peak(bd_ctx *ctx, const bd_select_problem *problem, const int *choice,
                       int64_t *out_time);
#endif
