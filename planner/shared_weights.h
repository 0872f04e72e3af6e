// Which weights several layers have in common, read off the module once for all settings.
#ifndef BD_PLANNER_SHARED_WEIGHTS_H
#define BD_PLANNER_SHARED_WEIGHTS_H
#include "planner/space.h"

// Which weights are whole on every rank where they are tied.
typedef enum bd_whole_weights { BD_WHOLE_NONE, BD_WHOLE_SMALL, BD_WHOLE_ALL } bd_whole_weights;

// Per value of main: how many operands of forward calls it is, and whether it is a weight that is
// whole where it is tied. Lives in ctx->arena.
const bd_weight_use *bd_model_weight_uses(bd_ctx *ctx, const bd_module *train,
                                          bd_whole_weights whole);

// Whether the first and the last layer use the weight, and no other.
bool bd_shared_is_of_ends(const bd_model_runs *runs, const bd_shared_weight *weight);

// Fills `shared` and `any_tied` of the runs, and the shares of their uses. `uses` as above. Lives
// in ctx->arena.
void bd_model_find_shared(bd_ctx *ctx, const bd_module *train, const bd_weight_use *uses,
                          bd_model_runs *runs);
#endif
