// The end of a step as the replay sees it.
#ifndef BD_PLANNER_SIMULATE_SYNC_H
#define BD_PLANNER_SIMULATE_SYNC_H
#include "planner/simulate/work.h"
#include "planner/step/end.h"

// Adds what the stage of `layout` does at the step's end, without ties.
BD_NODISCARD bd_status bd_sim_lower_sync(bd_ctx *ctx, const bd_cost_model *cost,
                                         const bd_module *spmd, const bd_plan *plan,
                                         const bd_layout *layout, bd_sim_stage *stage);

// Adds ties to what the stages reduce, and their messages to the `message_count` there are; the
// array has room for two per tie. Each stage that holds the weight takes the sum of those before
// it, adds its own, and hands on; the whole sum comes back the same way.
void bd_sim_lower_ties(bd_ctx *ctx, const bd_cost_model *cost, int tie_count, const bd_tie *ties,
                       bd_sim_stage *stages, bd_sim_message *messages, int *message_count);
#endif
