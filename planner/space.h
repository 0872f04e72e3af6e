// What the pipeline search enumerates: the model's runs, meshes, boundaries.
#ifndef BD_PLANNER_SPACE_H
#define BD_PLANNER_SPACE_H
#include "planner/layer.h"

// A run of consecutive forward calls of one function.
typedef struct bd_run {
  const bd_function *function;
  int first, calls;
  const bool *tied; // per parameter: a weight that other calls use as well
} bd_run;

typedef struct bd_model_runs {
  int count;
  bd_run *runs;
  bool any_tied;
} bd_model_runs;

bd_model_runs bd_model_runs_find(bd_ctx *ctx, const bd_module *train);

// Meshes of `devices` devices: one axis, and every ordered pair of factors of 2 or more.
int bd_space_meshes(bd_ctx *ctx, int devices, bd_mesh **out_meshes);

// Boundaries: each axis splits the batch, the dimension after it, or nothing; tied weights are
// split along their first dimension by any axes that do not split the batch.
int bd_space_boundaries(bd_ctx *ctx, const bd_mesh *mesh, int64_t micro_batch, int64_t sequence,
                        bool tied, bd_boundary **out_boundaries);
#endif
