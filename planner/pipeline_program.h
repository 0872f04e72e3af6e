// Pipelines as integer programs.
#ifndef BD_PLANNER_PIPELINE_PROGRAM_H
#define BD_PLANNER_PIPELINE_PROGRAM_H
#include "planner/pipeline.h"

// The integers count layers; a unit of flow passes through the stages and runs that have any, from
// the form in which a run enters a stage to that in which it leaves, and on to the next run, the
// next stage, or both, and every arc has its price. So layers keep their order, no stage is empty,
// and changes of form are paid where they happen.
int bd_pipeline_program_columns(const bd_pipeline_problem *problem);

// As bd_pipeline_solve, which see; `cap_bytes` may differ from the problem's. With `leanest`, the
// fullest stage is least instead.
BD_NODISCARD bd_status bd_pipeline_program_solve(bd_ctx *ctx, const bd_pipeline_problem *problem,
                                                 bool leanest, double cap_bytes,
                                                 double limit_seconds, double cutoff,
                                                 bd_pipeline *out_pipeline);
#endif
