// Parts of the end of a step that may come earlier.
#ifndef BD_RT_UPDATE_H
#define BD_RT_UPDATE_H
#include "runtime/rank.h"

// The axes of the ranks that have partial gradients of a use, as a mask.
int bd_rt_sum_mask(const bd_rt *rt, const bd_rt_weight *weight, int use);
// Makes the accumulator of a use the sum over the ranks that have partial ones; where this rank
// updates a part of the weight, only that part, the rest is left undefined.
void bd_rt_sum_use(bd_rt *rt, const bd_rt_weight *weight, int use);
// Whether that is an exchange between ranks that needs no memory beside the accumulator.
bool bd_rt_sums_in_place(const bd_rt *rt, const bd_rt_weight *weight, int use);
// The same of a weight's gather (bd_rt_gather_weight).
bool bd_rt_gathers_in_place(const bd_rt *rt, const bd_rt_weight *weight);
#endif
