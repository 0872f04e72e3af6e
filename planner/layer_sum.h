// Private to the layer problem: the sums of gradients that reach a value from several readers.
#ifndef BD_PLANNER_LAYER_SUM_H
#define BD_PLANNER_LAYER_SUM_H
#include "planner/layer_space.h"

// Finds the ops of the backward function that add up the gradients of each forward value, which no
// forward op governs.
void bd_layer_find_sums(bd_ctx *ctx, bd_layer_space *space);

// One reader's share of the seconds of a value's sums, when its summand is sharded like `gradient`.
// Summands that agree are added as they are. Where some are partial and others cut along an axis,
// the partial ones are scattered first; their share is no more than that takes.
double bd_layer_sum_seconds(const bd_layer_space *space, bd_id value, const bd_sharding *gradient);
#endif
