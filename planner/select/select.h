// Solves a sharding problem: a choice that fits in memory, its cost, and a proven bound.
#ifndef BD_PLANNER_SELECT_SELECT_H
#define BD_PLANNER_SELECT_SELECT_H
#include "ir/base/clock.h"
#include "planner/select/problem.h"

typedef struct bd_select_answer {
  int *choice; // a strategy per node
  int64_t cost, peak;
  int64_t bound;  // no choice costs less
  double seconds; // of wall time
  bool forbidden; // every choice found has a forbidden cost
  bool limited;   // the deadline ended the search: another run may give another answer
} bd_select_answer;

// Searches until the bound is reached, nothing has improved for long, or `deadline` has passed.
// The answer does not depend on `threads`, nor on the machine unless it is `limited`. Lives in
// ctx->arena. Errors: BD_INFEASIBLE when even the least usages exceed the limit.
BD_NODISCARD bd_status bd_select_solve(bd_ctx *ctx, const char *file,
                                       const bd_select_problem *problem, bd_deadline deadline,
                                       int threads, bd_select_answer *out_answer);
#endif
