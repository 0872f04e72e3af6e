// Weights that several stages hold.
#ifndef BD_RT_TIE_H
#define BD_RT_TIE_H
#include "runtime/rank.h"

// The lowest stage that holds a weight, and whether another stage holds it as well.
int bd_rt_first_holder(const bd_rt *rt, int global_index);
int bd_rt_tied(const bd_rt *rt, const bd_rt_weight *weight);

// Adds the uses of tied weights over their stages: as one stage that held them all would, use by
// use in stage order. Every holder ends with the sum in its first accumulator.
void bd_rt_tie_gradients(bd_rt *rt);
#endif
