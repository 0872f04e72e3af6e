// Weights that functions read as bf16: the optimizer updates a copy in f32, the master, which is
// the first part of the weight's state; each rank holds the master of the elements that it updates.
#ifndef BD_RT_MASTER_H
#define BD_RT_MASTER_H
#include "runtime/rank.h"

// Of a weight's padded local elements: who shares their update, and this rank's flat part.
typedef struct bd_rt_share {
  const bd_rt_group *group; // ZeRO-1; one rank: all elements are its own
  int zero;                 // the group's mask of axes
  int64_t elements, start, count;
} bd_rt_share;
bd_rt_share bd_rt_share_of(const bd_rt *rt, const bd_rt_weight *weight);

// The master of this rank's part, or NULL: the weight itself is f32.
float *bd_rt_master(const bd_rt *rt, const bd_rt_weight *weight);

// All local elements in f32: the weight itself, or where it has a master its first gradient, which
// is free between steps. bd_rt_store_wide makes weight and master of what stands there;
// bd_rt_load_wide brings the masters of all parts there.
float *bd_rt_wide(const bd_rt *rt, const bd_rt_weight *weight);
void bd_rt_store_wide(bd_rt *rt, const bd_rt_weight *weight);
void bd_rt_load_wide(bd_rt *rt, const bd_rt_weight *weight);
#endif
