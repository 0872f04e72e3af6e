// Memory of the plans of a setting.
#ifndef BD_PLANNER_GRAPH_PLAN_H
#define BD_PLANNER_GRAPH_PLAN_H
#include "planner/graph/setting.h"

// Room for a plan of the setting; stages, parts and options are 0. Lives in ctx->arena.
bd_layers_plan bd_layers_plan_new(bd_ctx *ctx, const bd_layers_setting *setting);
// A copy in ctx->arena; `layers` of the problem.
bd_layers_plan bd_layers_plan_clone(bd_ctx *ctx, const bd_layers_plan *from, int layers);
// Copies into the room of a plan of the same setting; `layers` of the problem.
void bd_layers_plan_copy(const bd_layers_plan *from, int layers, bd_layers_plan *to);
#endif
