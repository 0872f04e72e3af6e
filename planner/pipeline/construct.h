// Pipelines by dynamic programming over stages: good ones quickly, of any size.
#ifndef BD_PLANNER_PIPELINE_CONSTRUCT_H
#define BD_PLANNER_PIPELINE_CONSTRUCT_H
#include "planner/pipeline/pipeline.h"

// Every stage takes the next layers, each run of them in one form; forms are the fastest that
// changes between them allow, candidates of a form are mixed until the stage is within the cap, and
// among the ways to cut the chain, first the slowest stage and then the sum is least. Infeasible
// when nothing is found.
void bd_pipeline_construct(bd_ctx *ctx, const bd_pipeline_problem *problem,
                           bd_pipeline *out_pipeline);
#endif
