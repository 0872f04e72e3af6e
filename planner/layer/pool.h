// Private to the layer problem: values that count over the samples of a rank (ir/pool.h) are never
// brought to another cut of the batch, so all clusters that read or make them have one.
#ifndef BD_PLANNER_LAYER_POOL_H
#define BD_PLANNER_LAYER_POOL_H
#include "planner/layer/state.h"

// Whether a forward value may go from one form to another: its samples stay where they are.
bool bd_layer_keeps_pool(const bd_layer_space *space, bd_id value, const bd_sharding *from,
                         const bd_sharding *to);

// Whether all clusters of a pool cut the batch alike under a choice. Edges tell as much, but for
// those that are too wide (planner/layer/edge.h).
bool bd_layer_pools_agree(const bd_layer_space *space, const int *option);

// Of a choice that elimination found, an allowed one: the same where elimination is exact. Where it
// is relaxed, or an edge is too wide, clusters may come to cut the batch in several ways; then they
// are given the way that makes the least of seconds_weight * seconds + bytes_weight * bytes, each
// the option that is best beside its neighbours. False when that is not allowed either.
bool bd_layer_mend_pools(bd_ctx *ctx, const bd_layer *layer, double seconds_weight,
                         double bytes_weight, int *option);
#endif
