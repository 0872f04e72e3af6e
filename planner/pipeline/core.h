// The few candidates of a pipeline that are likely to be used.
#ifndef BD_PLANNER_PIPELINE_CORE_H
#define BD_PLANNER_PIPELINE_CORE_H
#include "planner/pipeline/pipeline.h"

// The same problem with fewer candidates: number k of them, over all runs, is number index[k] of
// the whole problem.
typedef struct bd_pipeline_core {
  bd_pipeline_problem problem;
  int *index;
} bd_pipeline_core;

// Those that an assignment uses, and of the others, at what a byte is worth on some stage, the
// fastest and those that are the least slower, as many as make an integer program of at most so
// many columns. Such a core is what knapsack problems are solved by (Balas and Zemel, Operations
// Research 28, 1980). `known` may be without an assignment, `price` is per stage, or NULL: nothing.
// False when there are no more columns in the first place, or when even a core of those that are
// used has more; then `*out_core` is not to be used. The core lives in ctx->arena.
bool bd_pipeline_find_core(bd_ctx *ctx, const bd_pipeline_problem *problem,
                           const bd_pipeline *known, const double *price, int columns,
                           bd_pipeline_core *out_core);

// Turns an assignment of the core into the same one of the whole problem; its counts live in
// ctx->arena.
void bd_pipeline_leave_core(bd_ctx *ctx, const bd_pipeline_problem *problem,
                            const bd_pipeline_core *core, bd_pipeline *pipeline);
#endif
