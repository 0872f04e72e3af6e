// Private to the layer problem: what bringing values from one form to another takes.
#ifndef BD_PLANNER_LAYER_RESHARD_H
#define BD_PLANNER_LAYER_RESHARD_H
#include "planner/layer_space.h"

// Seconds to bring forward value `value` from one form to another, as bd_cost_reshard; values of
// one type and collectives between two forms are priced once.
double bd_layer_reshard_seconds(bd_layer_space *space, bd_id value, const bd_sharding *from,
                                const bd_sharding *to);
#endif
