// Which part of backward only weights' gradients wait for.
#ifndef BD_PLANNER_FULL_WEIGHT_H
#define BD_PLANNER_FULL_WEIGHT_H
#include "ir/module.h"

// Floating-point operations of one call over a batch.
typedef struct bd_pass_flops {
  double forward, backward;
  double weight; // of backward: ops that no gradient of an activation needs
} bd_pass_flops;

// Adds those of a function and of its backward function.
BD_NODISCARD bd_status bd_add_pass_flops(bd_ctx *ctx, const bd_module *train,
                                         const bd_function *forward, int64_t batch,
                                         bd_pass_flops *sum);

// The seconds of backward that a delayed pass takes along, by the share of its operations: no more
// than in backward, and no more than as many operations take in forward, as backward may also run
// forward's again.
double bd_weight_pass_seconds(const bd_pass_flops *flops, double forward_seconds,
                              double backward_seconds);

// The most that it is of forward and backward together, however they share their seconds.
double bd_weight_pass_share(const bd_pass_flops *flops);
#endif
