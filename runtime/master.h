// Weights that functions read as halves: the optimizer updates a copy in f32, the master, which is
// the first part of the weight's state; each rank holds the master of the elements that it updates.
// Weights that are `rounded` have none.
#ifndef BD_RT_MASTER_H
#define BD_RT_MASTER_H
#include "runtime/layout.h"
#include "runtime/rank.h"

// Where the accumulators of a weight's gradients lie: as the weight, or cut further.
bd_rt_layout bd_rt_gradient_layout(const bd_rt_weight *weight);
bd_rt_local bd_rt_gradient_local(const bd_rt *rt, const bd_rt_weight *weight);

// The weight's elements that an accumulator is of: `outer` rows of `row`, `stride` apart in the
// weight's buffer from `start`. One row of all: they lie alike.
typedef struct bd_rt_rows {
  int64_t outer, row, stride, start;
} bd_rt_rows;
bd_rt_rows bd_rt_rows_of(const bd_rt *rt, const bd_rt_weight *weight);

// Of an accumulator's padded local elements: who shares their update, and this rank's flat part.
typedef struct bd_rt_share {
  const bd_rt_group *group; // ZeRO-1; one rank: all elements are its own
  int zero;                 // the group's mask of axes
  int64_t elements, start, count;
} bd_rt_share;
bd_rt_share bd_rt_share_of(const bd_rt *rt, const bd_rt_weight *weight);

// The master of this rank's part, or NULL: the weight itself is updated.
float *bd_rt_master(const bd_rt *rt, const bd_rt_weight *weight);

// Elements in f32, and how they lie: the weight itself, or of a half its first gradient, which is
// free between steps. bd_rt_store_wide makes weight and master of what stands there, rounded to the
// nearest half; bd_rt_load_wide brings the masters of all parts there, or without them the weight.
float *bd_rt_wide(const bd_rt *rt, const bd_rt_weight *weight);
bd_rt_layout bd_rt_wide_layout(const bd_rt_weight *weight);
bd_rt_local bd_rt_wide_local(const bd_rt *rt, const bd_rt_weight *weight);
void bd_rt_store_wide(bd_rt *rt, const bd_rt_weight *weight);
void bd_rt_load_wide(bd_rt *rt, const bd_rt_weight *weight);

// Every rank's part of the weight, which it alone has updated, reaches those that share the update.
void bd_rt_gather_weight(bd_rt *rt, const bd_rt_weight *weight);
#endif
