// The passes that a step of gpipe or 1f1b takes as long as: a longest path through its order.
#ifndef BD_PLANNER_STEP_PATH_H
#define BD_PLANNER_STEP_PATH_H
#include "planner/step/step.h"

// How many passes of each stage lie on the path. Every step of as many stages and micro-batches
// takes at least the sum of their seconds, whatever its stages take, since the path is one of its
// order as well; the step at hand takes exactly that.
typedef struct bd_step_path {
  int *forwards, *backwards; // per stage
  double seconds;            // of the step at hand, its end aside
} bd_step_path;

// Takes room for two numbers a stage and micro-batch. Lives in ctx->arena.
void bd_step_find_path(bd_ctx *ctx, bd_schedule schedule, int stages, int micro_batches,
                       const bd_stage_seconds *stage, bd_step_path *out_path);
#endif
