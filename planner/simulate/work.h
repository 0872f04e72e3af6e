// Lists of what a stage does, as they are built.
#ifndef BD_PLANNER_SIMULATE_WORK_H
#define BD_PLANNER_SIMULATE_WORK_H
#include "planner/cost/cost.h"
#include "planner/simulate/simulate.h"

// Compute that follows compute becomes one action. Nothing is added for no time.
void bd_sim_add_compute(bd_ctx *ctx, bd_sim_work *work, double seconds, double collective_seconds);
void bd_sim_add_send(bd_ctx *ctx, bd_sim_work *work, int message, double copy_seconds);
void bd_sim_add_receive(bd_ctx *ctx, bd_sim_work *work, int message);

// A message of `bytes` per rank between two stages.
bd_sim_message bd_sim_message_between(const bd_cost_model *cost, int from, int to, double bytes);
#endif
