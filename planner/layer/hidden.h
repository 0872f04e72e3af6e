// Private to the layer problem: what bringing sums over ranks to a form takes, less what of it runs
// beside the product that made them.
#ifndef BD_PLANNER_LAYER_HIDDEN_H
#define BD_PLANNER_LAYER_HIDDEN_H
#include "planner/layer/space.h"

// Of a collective behind a product, at least.
double bd_layer_exposed_seconds(const bd_layer_space *space, const bd_cut_product *product,
                                double collective);

// Of a collective of so many seconds that brings a forward value from the form in which its op
// leaves it, or, where `gradient`, its gradient from that in which readers' ops leave it: never
// more than what is not hidden behind the longest product that leaves it so. So it depends on value
// and forms alone.
double bd_layer_exposed_sum(bd_layer_space *space, bd_id value, bool gradient,
                            const bd_sharding *from, double collective);

// The same, of bd_layer_reshard_seconds.
double bd_layer_settle_seconds(bd_layer_space *space, bd_id value, bool gradient,
                               const bd_sharding *from, const bd_sharding *to);
#endif
