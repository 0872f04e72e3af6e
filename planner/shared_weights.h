// Which weights several layers have in common, read off the module once for all settings.
#ifndef BD_PLANNER_SHARED_WEIGHTS_H
#define BD_PLANNER_SHARED_WEIGHTS_H
#include "planner/space.h"

// Per value of main: how many operands of forward calls it is; and with `small`, whether it is a
// weight that is whole where it is tied. Lives in ctx->arena.
const bd_weight_use *bd_model_weight_uses(bd_ctx *ctx, const bd_module *train, bool small);

// Fills `shared` and `any_tied` of the runs. `uses` as above. Lives in ctx->arena.
void bd_model_find_shared(bd_ctx *ctx, const bd_module *train, const bd_weight_use *uses,
                          bd_model_runs *runs);
#endif
