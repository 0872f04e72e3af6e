// The least that the end of a step takes for one use of a weight: sums over ranks, the norm, the
// update, and what brings it to all.
#ifndef BD_PLANNER_COST_SYNC_H
#define BD_PLANNER_COST_SYNC_H
#include "planner/cost/cost.h"

// Seconds, once a step, of one of `uses` that a stage has at most, each with an accumulator of its
// own: its accumulator is cleared and summed over ranks, and it has a share of what is done once
// for all of them. `gradient` is how the accumulator lies: partial over axes whose ranks hold
// summands (an all-reduce), and cut over axes where the weight, which lies as `form` says, is whole
// (ZeRO-2: the updated parts are gathered). The update touches the elements of the accumulator.
// `may_split`: states may also be split flat over replicas (ZeRO-1: a reduce-scatter, the update of
// a part, and an all-gather), if that takes less.
double bd_sync_seconds(const bd_cost_model *cost, const char *optimizer, const bd_type *weight,
                       const bd_sharding *form, const bd_sharding *gradient, bool may_split,
                       int uses);
#endif
