// Choice problems without a budget, exactly: nodes are eliminated one after another, each leaving a
// table over its neighbours (bucket elimination: Dechter, Artificial Intelligence 113, 1999).
// Layers are nearly chains, so tables stay small; options that look the same to all that is left
// share their entries.
#ifndef BD_PLANNER_ELIMINATE_H
#define BD_PLANNER_ELIMINATE_H
#include "planner/choice.h"

typedef struct bd_elimination bd_elimination;

// The order and tables for `problem` restricted to the options that are `live` (NULL: all); node
// `last` goes last (-1: any). NULL when a table would be too large. Lives in ctx->arena.
bd_elimination *bd_elimination_create(bd_ctx *ctx, const bd_choice_problem *problem,
                                      bool *const *live, int last);

// Minimizes cost_weight * cost + usage_weight * usage over allowed choices. False when none is
// allowed.
bool bd_elimination_run(bd_elimination *elimination, double cost_weight, double usage_weight,
                        int *out_option);

// After a run, the best choice in which the node that went last takes `option`; its weighted sum.
// INFINITY when none is allowed.
double bd_elimination_choose(const bd_elimination *elimination, int option, int *out_option);
#endif
