// Which strategies can still be part of a solution better than the incumbent.
#ifndef BD_PLANNER_SELECT_DOMAIN_H
#define BD_PLANNER_SELECT_DOMAIN_H
#include "planner/select/problem.h"

// Times where memory can bind: the maximal sets of nodes alive together whose largest usages
// exceed the limit. Other times never decide anything.
typedef struct bd_select_times {
  int points;
  int *first, *last; // of each node: its points are [first, last)
} bd_select_times;

bd_select_times bd_select_find_times(bd_ctx *ctx, const bd_select_problem *problem);

typedef struct bd_select_domain {
  bool *live; // of each strategy, numbered as in problem->cost
  int *count; // of each node: its live strategies
} bd_select_domain;

bd_select_domain bd_select_domain_create(bd_ctx *ctx, const bd_select_problem *problem);

// Drops strategies until nothing changes: those that cost `forbid` or more, that have no partner on
// some edge for less than `forbid`, or that do not fit in memory even when all other nodes use
// their least. Returns false when some node keeps none: then there is no solution whose every cost
// is below `forbid`. The problem is a merged one (see merge.h). Scratch is in ctx->arena.
bool bd_select_domain_prune(bd_ctx *ctx, const bd_select_problem *problem,
                            const bd_select_times *times, int64_t forbid, bd_select_domain *domain);
#endif
