// What the stages of a program send to one another once per micro-batch.
#ifndef BD_PLANNER_MESSAGES_H
#define BD_PLANNER_MESSAGES_H
#include "ir/layout.h"
#include "ir/plan.h"
#include "planner/cost/cost.h"

// Tells the messages of the layout's stage. `op_seconds`: of one rank, per op of main. The list
// lives in ctx->arena.
void bd_messages_tell(bd_ctx *ctx, const bd_cost_model *cost, const bd_module *spmd,
                      const bd_layout *layout, const double *op_seconds, bd_stage_prediction *out);
#endif
