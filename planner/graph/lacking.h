// By how much the caps of a layer graph are too small.
#ifndef BD_PLANNER_GRAPH_LACKING_H
#define BD_PLANNER_GRAPH_LACKING_H
#include "planner/graph/layers.h"
#include "planner/graph/meter.h"

// For a problem that is known to have no plan: sets `lacking_bytes` and `least_lacking_bytes` of
// the answer, which are the same unless the work or the time did not suffice, and the plan. Where
// it has one and the caller did not find it, only `lacking_bytes` and the plan mean anything.
BD_NODISCARD bd_status bd_layers_find_lacking(bd_ctx *ctx, const bd_layers_problem *problem,
                                              bd_layers_meter *meter, int64_t most_work,
                                              bd_layers_answer *answer);
#endif
