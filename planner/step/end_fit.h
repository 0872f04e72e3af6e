// What the measured end of a step says of a cluster's rates.
#ifndef BD_PLANNER_STEP_END_FIT_H
#define BD_PLANNER_STEP_END_FIT_H
#include "ir/plan.h"
#include "planner/cost/fit.h"

// Adds one to `rows`: what a rank of stage 0 of the plan's program moves, sums and gathers at the
// end of a step, by bd_step_end_of_stage, and the seconds that this took. Of model->cluster its
// rates of the update, of kernels and of links are not used. Nothing is added where stages share
// weights, as their messages take part of the seconds, nor beyond BD_FIT_MAX_ENDS. `seconds`: as
// measured, of one step. Errors: those of bd_layout_of_stage and bd_step_end_of_stage; `rows` is
// then as it was.
BD_NODISCARD bd_status bd_step_end_fit(bd_ctx *ctx, const bd_cost_model *model,
                                       const bd_module *spmd, const bd_plan *plan, double seconds,
                                       bd_fit_rows *rows);
#endif
