// The end of a step for one use of a weight: sums over ranks, the update, and what brings it to
// all.
#ifndef BD_PLANNER_SYNC_H
#define BD_PLANNER_SYNC_H
#include "planner/cost.h"

// Seconds, once a step. `gradient` is how the accumulator lies: partial over axes whose ranks hold
// summands (an all-reduce, or with split states a reduce-scatter and an all-gather, which take as
// long), and cut over axes where the weight, which lies as `form` says, is whole (ZeRO-2: the
// updated parts are gathered). The update touches the elements of the accumulator.
double bd_sync_seconds(const bd_cost_model *cost, const char *optimizer, const bd_type *weight,
                       const bd_sharding *form, const bd_sharding *gradient);
#endif
