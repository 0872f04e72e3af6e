// Weights that functions read as halves: the optimizer updates a copy in f32, the master, which is
// the first part of the weight's state; each rank holds the master of the elements that it updates.
// Weights that are `rounded` have none.
#ifndef BD_RT_MASTER_H
#define BD_RT_MASTER_H
#include "runtime/layout.h"
#include "runtime/rank.h"

// Where this rank's part of a weight's gradients lies (bd_rt_gradient_layout).
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
// The optimizer's state behind it: the first moment and, `state_elements` further, the second, or
// what runtime/factors.h says.
float *bd_rt_moments(const bd_rt *rt, const bd_rt_weight *weight);

// Elements as they are loaded and saved, of which type they are, and how they lie: the weight
// itself, or of one with a master its first gradient in f32, which is free between steps.
// bd_rt_store_plain makes weight and master of what stands there, rounded to the nearest half;
// bd_rt_load_plain brings the masters of all parts there.
void *bd_rt_plain(const bd_rt *rt, const bd_rt_weight *weight);
int bd_rt_plain_dtype(const bd_rt *rt, const bd_rt_weight *weight);
bd_rt_layout bd_rt_plain_layout(const bd_rt *rt, const bd_rt_weight *weight);
bd_rt_local bd_rt_plain_local(const bd_rt *rt, const bd_rt_weight *weight);
void bd_rt_store_plain(bd_rt *rt, const bd_rt_weight *weight);
void bd_rt_load_plain(bd_rt *rt, const bd_rt_weight *weight);

// Every rank's part of the weight, which it alone has updated, reaches those that share the update.
void bd_rt_gather_weight(bd_rt *rt, const bd_rt_weight *weight);
#endif
