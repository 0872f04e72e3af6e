// The leanest pipeline of few layers, what skips hold included.
#ifndef BD_PLANNER_PIPELINE_LEAN_SKIPS_H
#define BD_PLANNER_PIPELINE_LEAN_SKIPS_H
#include "planner/pipeline/pipeline.h"

// Looks for an assignment of at most BD_LABEL_LAYERS layers whose fullest stage holds less than
// that of `pipeline`, which is one of them; none holds less than `least_bytes`. Labels are set as
// by bd_pipeline_label, but only for bytes: a label goes where another one is as good whatever
// comes after it, so that the leanest assignment is found, and the worst go where there are still
// too many of a stage and form, which makes `pipeline->optimal` false. Counts of a better one live
// in ctx->arena.
void bd_pipeline_lean_skips(bd_ctx *ctx, const bd_pipeline_problem *problem, double least_bytes,
                            bd_pipeline *pipeline);
#endif
