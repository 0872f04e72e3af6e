// Pipelines of few layers, layer by layer: what counts mix where layers are many has to be found
// for each where they are few, and with many candidates and forms integer programs are too large.
#ifndef BD_PLANNER_PIPELINE_LABEL_H
#define BD_PLANNER_PIPELINE_LABEL_H
#include "planner/pipeline/pipeline.h"

// More layers are left to what is constructed.
#define BD_LABEL_LAYERS 16

// Looks for assignments of at most BD_LABEL_LAYERS layers that take less than `pipeline` does, if
// that is feasible, and less than `cutoff` seconds, and takes over the best. Labels are set
// (Dijkstra's and Bellman's, with several criteria: Hansen, Bicriterion path problems, 1980): a
// label is an assignment of the first layers, and of those that end on the same stage and in the
// same form a number is kept that no other beats in all that it takes and holds, the most promising
// at `price` (bd_pipeline.price, or NULL). Nothing is proven. Counts of a solution live in
// ctx->arena.
void bd_pipeline_label(bd_ctx *ctx, const bd_pipeline_problem *problem, double cutoff,
                       const double *price, bd_pipeline *pipeline);
#endif
