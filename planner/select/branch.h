// Branch and bound: the best choice among those left, when they are few enough.
#ifndef BD_PLANNER_SELECT_BRANCH_H
#define BD_PLANNER_SELECT_BRANCH_H
#include "ir/base/clock.h"
#include "planner/select/ascent.h"

typedef struct bd_select_incumbent {
  int *choice;  // of each node of the problem
  int64_t cost; // INT64_MAX: it does not fit
} bd_select_incumbent;

// Drops strategies that the bound proven by prices and messages shows to be in no choice better
// than `cost`; returns how many.
int bd_select_fix(bd_ctx *ctx, const bd_select_problem *problem, bd_select_ascent *ascent,
                  int64_t cost, bd_select_domain *domain);

// Searches all choices of live strategies that are better than the incumbent, replacing it.
// `price`: of each point, where to begin. Returns true when it is then proven that none is better;
// false when more than `most_nodes` nodes of the search tree or the time until `deadline` would be
// needed.
bool bd_select_branch(bd_ctx *ctx, const bd_select_problem *problem, const bd_select_times *times,
                      const bd_select_domain *domain, const double *price, int most_nodes,
                      bd_deadline deadline, bd_select_incumbent *incumbent);
#endif
