// Boundaries between the stages of a pipeline, moved by a layer.
#ifndef BD_PLANNER_PIPELINE_SHIFT_H
#define BD_PLANNER_PIPELINE_SHIFT_H
#include "planner/pipeline/pipeline.h"

// Moves one layer at a time over a boundary between two stages, fills both anew
// (planner/pipeline/refill.h), and keeps what makes the step shorter, until no boundary does, or
// for a number of rounds: constructions weigh stages by the slowest and the sum, which is less than
// the order of their passes tells where micro-batches are few. Of several stages, without skips.
void bd_pipeline_shift(bd_ctx *ctx, const bd_pipeline_problem *problem, bd_pipeline *pipeline);
#endif
