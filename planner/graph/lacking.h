// By how much the caps of a layer graph are too small.
#ifndef BD_PLANNER_GRAPH_LACKING_H
#define BD_PLANNER_GRAPH_LACKING_H
#include "planner/graph/layers.h"

// For a problem that has no plan within its caps, or none that the caller found: sets
// `lacking_bytes`, `least_lacking_bytes` and `plan` of the answer, in ctx->arena, and nothing else
// of it. The two numbers are the same unless the work, as a meter counts it
// (planner/graph/meter.h), or the time did not suffice. Where the problem has a plan after all,
// `lacking_bytes` is 1 at most, and `least_lacking_bytes` means nothing. Errors: none of its own.
BD_NODISCARD bd_status bd_layers_find_lacking(bd_ctx *ctx, const bd_layers_problem *problem,
                                              bd_deadline deadline, int64_t most_work,
                                              bd_layers_answer *out_answer);
#endif
