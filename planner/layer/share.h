// Private to the layer problem: how the readers of a value share what it takes to bring it to them,
// and its gradient back.
//
// All of it takes at least what it does for any one reader, so that any shares that make up 1 leave
// a bound. Readers that want the same have it done once, which shares of each tell exactly,
// whatever they are; where one wants more than the others, as queries do whose heads are split
// further than those of keys and values, only its share of that counts.
#ifndef BD_PLANNER_LAYER_SHARE_H
#define BD_PLANNER_LAYER_SHARE_H
#include "planner/layer/space.h"

// Fills in what the space knows of readers, once it knows where gradients flow.
void bd_layer_find_shares(bd_ctx *ctx, bd_layer_space *space);

// The share of op `op`, once for each of its operands that the value is: of as many as make the
// largest results of all readers, each the same. Where a reader is pointwise or a convolution,
// which want less than their results tell, all have the same.
double bd_layer_share(const bd_layer_space *space, int op, bd_id value);
#endif
