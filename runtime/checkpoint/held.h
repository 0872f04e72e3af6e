// Where a rank's cuts are in its memory.
#ifndef BD_RT_HELD_H
#define BD_RT_HELD_H
#include "runtime/checkpoint/cut.h"
#include "runtime/rank.h"

// The first element of bd_rt_cut_held for this rank.
void *bd_rt_held_data(const bd_rt *rt, const bd_rt_weight *weight, int kind);
#endif
