// One look at all settings of a layer graph, with an amount of work that the caller sets.
#ifndef BD_PLANNER_GRAPH_SEARCH_H
#define BD_PLANNER_GRAPH_SEARCH_H
#include "planner/graph/layers.h"
#include "planner/graph/meter.h"

// Whether some setting has room for its layers (planner/graph/room.h); if none has, there is no
// plan. Nothing is searched.
bool bd_layers_any_room(bd_ctx *ctx, const bd_layers_problem *problem);

typedef enum bd_layers_aim {
  BD_LAYERS_BEST, // the best plan, and a bound
  BD_LAYERS_GOOD, // a good plan soon; of the bound, what comes with it
  BD_LAYERS_ANY,  // whether there is a plan
} bd_layers_aim;

// Plans of `cutoff` seconds or more are not wanted. The work ends when the meter stands at
// `most_work`. Without a plan, `bound` is INFINITY where there is none. What is lacking is not
// told. The answer lives in ctx->arena.
BD_NODISCARD bd_status bd_layers_search(bd_ctx *ctx, const bd_layers_problem *problem,
                                        bd_layers_meter *meter, int64_t most_work, double cutoff,
                                        bd_layers_aim aim, bd_layers_answer *out_answer);
#endif
