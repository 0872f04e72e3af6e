// Kept values that do not lie on the tape as they are: compressed, or in the host's memory. No
// program does that yet; it is planned with --space full.
#ifndef BD_PLANNER_LAYER_ASIDE_H
#define BD_PLANNER_LAYER_ASIDE_H
#include "ir/plan.h"
#include "planner/cost/cost.h"

// Of one rank, one micro-batch.
typedef struct bd_aside {
  double forward_seconds, backward_seconds; // putting values aside, and bringing them back
  int64_t tape_bytes;                       // that they do not take on the device
  int64_t room_bytes;                       // that the largest takes while it comes back
  int64_t host_bytes;                       // that they take in the host's memory
} bd_aside;

// One value of `local` type. Offloading takes as long as the bytes need over the host's link:
// nothing hides it; where that link is not known, it takes forever. Compression writes and reads
// one byte per element.
bd_aside bd_aside_value(const bd_cost_model *cost, const bd_type *local, bd_kept kept);

// All values of a strategy.
bd_aside bd_aside_of(const bd_cost_model *cost, const bd_function *forward,
                     const bd_strategy *strategy);
#endif
