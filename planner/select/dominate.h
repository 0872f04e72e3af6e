// Strategies that another of the same node can always replace.
#ifndef BD_PLANNER_SELECT_DOMINATE_H
#define BD_PLANNER_SELECT_DOMINATE_H
#include "ir/base/clock.h"
#include "planner/select/model.h"

// Drops a strategy when another costs no more, whatever the other nodes choose, and uses no more
// memory. Nodes whose comparison is dearer than what is left of `work` matrix entries are passed
// over, and so is what the deadline comes before. Returns how many strategies were dropped.
int bd_select_dominate(bd_ctx *ctx, const bd_select_problem *problem, const bd_select_model *model,
                       double work, bd_deadline deadline, bd_select_domain *domain);
#endif
