// Stages of a pipeline, each filled anew under the cap.
#ifndef BD_PLANNER_PIPELINE_REFILL_H
#define BD_PLANNER_PIPELINE_REFILL_H
#include "planner/pipeline/pipeline.h"

// With the layers of every stage, and the forms in which it takes in and hands on, as they are:
// chooses forms and candidates of each stage again, under a price on bytes (Lagrange) for every
// size that its workspace may have, and spends what room is left layer by layer. Keeps what makes
// the step shorter, so that the pipeline is never worse. Of one stage nothing needs to be known
// before: `pipeline` may be without an assignment.
void bd_pipeline_refill(bd_ctx *ctx, const bd_pipeline_problem *problem, bd_pipeline *pipeline);

// The same of the stages from `first` to `last` alone.
void bd_pipeline_refill_stages(bd_ctx *ctx, const bd_pipeline_problem *problem, int first, int last,
                               bd_pipeline *pipeline);
#endif
