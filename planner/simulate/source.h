// Where the replay's numbers come from.
#ifndef BD_PLANNER_SIMULATE_SOURCE_H
#define BD_PLANNER_SIMULATE_SOURCE_H
#include "ir/cluster.h"
#include "planner/simulate/simulate.h"

// The program that the plan describes, as codegen would emit it: its ops and collectives one by
// one, its messages, what runtime/update.c does at the step's end, and the arena that ir/layout.h
// lays out. The plan's own predictions are not read. Requires bd_plan_check and a schedule that is
// emitted. Everything lives in ctx->arena.
BD_NODISCARD bd_status bd_sim_lower(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                                    const bd_plan *plan, bd_sim_problem *out_problem);

// The plan's own predictions: seconds of the passes, messages, and bytes as ir/plan_replay.h tells
// them; for plans of which there is no program, or without the model at hand. Where messages are
// not told, each stage exchanges one with its neighbours per pass, in the `send_seconds` that it
// spends on them. Requires predictions, and bd_schedule_allows. Lives in ctx->arena.
BD_NODISCARD bd_status bd_sim_tell(bd_ctx *ctx, const bd_plan *plan, bd_sim_problem *out_problem);
#endif
