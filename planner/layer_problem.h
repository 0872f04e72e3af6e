// The layer space as a choice problem.
#ifndef BD_PLANNER_LAYER_PROBLEM_H
#define BD_PLANNER_LAYER_PROBLEM_H
#include "planner/choice.h"
#include "planner/layer_space.h"

// A node per cluster; usage in bytes of one rank: weights with gradients and optimizer, and tapes
// of the micro-batches in flight. Costs are seconds per micro-batch and never more than what the
// lowered functions take, so that a bound here is a bound on them: conversions and recomputation
// that several readers share are divided among them.
BD_NODISCARD bd_status bd_layer_problem(bd_ctx *ctx, bd_layer_space *space,
                                        bd_choice_problem *out_problem);

// The strategy that a choice stands for.
bd_strategy bd_layer_strategy(bd_ctx *ctx, const bd_layer_space *space, const int *option);
#endif
