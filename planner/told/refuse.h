// What to say when there is no plan.
#ifndef BD_PLANNER_TOLD_REFUSE_H
#define BD_PLANNER_TOLD_REFUSE_H
#include "planner/planner.h"

// For a search that found nothing: the bytes that are lacking, the largest tensors of the leanest
// plan, and what would help, each looked at by a search of its own; or the pin that leaves no plan.
// Returns BD_INFEASIBLE.
bd_status bd_plan_refuse(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                         const bd_plan_request *request, const bd_search_outcome *outcome);
#endif
