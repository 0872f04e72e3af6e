// Which weights several layers have in common, read off the module once for all settings.
#ifndef BD_PLANNER_SHARED_WEIGHTS_H
#define BD_PLANNER_SHARED_WEIGHTS_H
#include "planner/space.h"

// Fills `shared` of the runs. `uses`: per value of main, by how many operands of forward calls it
// is used. Lives in ctx->arena.
void bd_model_find_shared(bd_ctx *ctx, const bd_module *train, const int *uses,
                          bd_model_runs *runs);
#endif
