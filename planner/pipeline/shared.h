// Weights that several calls use: a rank holds one of each, and its optimizer's state, however many
// of its layers use it; gradients have an accumulator for every use.
#ifndef BD_PLANNER_PIPELINE_SHARED_H
#define BD_PLANNER_PIPELINE_SHARED_H
#include "planner/bound/bound.h"
#include "planner/pipeline/pipeline.h"

// Bytes that all stages of a setting together hold for shared weights at least, beside what the
// layer problems charge: the weight alone, for every use.
double bd_shared_least_bytes(const bd_scene *scene, const bd_setting *setting);

// What a stage holds of a shared weight beside what the layer problems charge, with `n` uses of it,
// one at least: `once` and n times `each`, which is not negative.
typedef struct bd_shared_use {
  double once, each;
  const int *uses; // per run: by each of its calls, at least
} bd_shared_use;

// -1: some use of one has no gradient, so that they are not told so.
int bd_shared_uses(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                   bd_shared_use **out_uses);

// Seconds that a step's end takes more on the first and on the last of several stages, for weights
// that the first and the last layer share with each other alone: their gradients go there and back.
double bd_shared_tie_seconds(const bd_scene *scene, const bd_setting *setting);

// Takes shared weights and their states out of the runs' candidates, which become copies, and into
// `problem`: candidates were measured as if each had the weight to itself. Lives in ctx->arena.
void bd_shared_set_apart(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                         bd_pipeline_run *runs, bd_pipeline_problem *problem);
#endif
