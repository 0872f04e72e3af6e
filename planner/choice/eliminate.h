// Choice problems without a budget, exactly: nodes are eliminated one after another, each leaving a
// table over its neighbours (bucket elimination: Dechter, Artificial Intelligence 113, 1999).
// Layers are nearly chains, so tables stay small; options that look the same to all that is left
// share their entries.
#ifndef BD_PLANNER_CHOICE_ELIMINATE_H
#define BD_PLANNER_CHOICE_ELIMINATE_H
#include "planner/choice/choice.h"

typedef struct bd_elimination bd_elimination;

// The order and tables for `problem` restricted to the options that are `live` (NULL: all); node
// `last` goes last (-1: any). NULL when a table would be too large. Lives in ctx->arena.
bd_elimination *bd_elimination_create(bd_ctx *ctx, const bd_choice_problem *problem,
                                      bool *const *live, int last);

// As above, but for problems of any size: no step visits more than `most_visits` entries, or those
// of one edge. A node with more is eliminated in parts, each with some of its neighbours, as if it
// could choose anew for each (mini-buckets: Dechter and Rish, Journal of the ACM 50, 2003): a run
// then finds a choice, not always the best, and a bound. NULL when an edge alone is too large.
bd_elimination *bd_elimination_relax(bd_ctx *ctx, const bd_choice_problem *problem, int last,
                                     int64_t most_visits);

// Of the last run: no allowed choice has a smaller weighted sum. Exact but for rounding when the
// elimination is.
double bd_elimination_bound(const bd_elimination *elimination);

// Minimizes cost_weight * cost + usage_weight * usage over allowed choices. False when none is
// allowed. A relaxed elimination may find a choice that is not allowed where others are.
bool bd_elimination_run(bd_elimination *elimination, double cost_weight, double usage_weight,
                        int *out_option);

// After a run: no allowed choice in which the node that went last takes `option` has a smaller
// weighted sum. INFINITY when none is allowed.
double bd_elimination_least(const bd_elimination *elimination, int option);

// After a run, the best choice in which the node that went last takes `option`; its weighted sum.
// INFINITY when none is allowed.
double bd_elimination_choose(bd_elimination *elimination, int option, int *out_option);
#endif
