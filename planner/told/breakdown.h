// What a plan's seconds, flops and bytes are made of.
#ifndef BD_PLANNER_TOLD_BREAKDOWN_H
#define BD_PLANNER_TOLD_BREAKDOWN_H
#include "ir/plan_details.h"
#include "planner/planner.h"

// Fills `plan->details`, familiar choices aside, for a plan that is predicted: the same walk over
// the program that it describes, so that a stage's compute and traffic add up to its forward and
// backward seconds, and its parts of synchronization to that.
BD_NODISCARD bd_status bd_plan_break_down(bd_ctx *ctx, const bd_module *train,
                                          const bd_cluster *cluster, bd_plan *plan);
// Flops of the model in a step, whatever the plan says but its samples: `details` have them as
// model_flops.
BD_NODISCARD bd_status bd_plan_model_flops(bd_ctx *ctx, const bd_module *train, const bd_plan *plan,
                                           double *out_flops);
#endif
