// Private to the layer problem: which way gradients take through a layer, and what adding up those
// that reach a value from several readers costs.
#ifndef BD_PLANNER_LAYER_GRADIENT_H
#define BD_PLANNER_LAYER_GRADIENT_H
#include "planner/layer/space.h"

// Fills in what the space knows of gradients: where they flow, and which ops of backward add them
// up, that no forward op governs.
void bd_layer_find_gradients(bd_ctx *ctx, bd_layer_space *space);

// Fills in passes_to and is_passed of the space: of a value whose gradient additions of its cluster
// hand on as it is, the first result of the cluster's anchor that it is handed to; BD_NO_ID of
// others. Needs the space's uses and gradients. What lies between the two is read by these
// additions alone.
void bd_layer_find_passes(bd_ctx *ctx, bd_layer_space *space);

// The operand's part of what bringing gradients to the operands of an op takes. Where an addition
// hands on its result's gradient as it is, it is brought once to operands that want it alike: they
// share that, or, of a branch beside what other ops read as well, the branch has it all.
double bd_layer_handed_share(const bd_layer_space *space, int op, int operand);

// Where the gradient of a value is wanted: as the op that makes the value is split, or where that
// hands it on, in the value's form.
bd_sharding bd_layer_gradient_home(const bd_layer_space *space, const bd_cluster_ops *cluster,
                                   const bd_layer_option *option, bd_id value);

// Whether backward reads the gradient of the op's first result, split as the op is.
bool bd_layer_reads_gradient(const bd_layer_space *space, int op);

// The reader's share of the seconds of the sums of an operand's gradients, when its summand is
// sharded like `gradient`. Summands that agree are added as they are. Where some are partial and
// others cut along an axis, the partial ones are scattered first; their share is no more than that
// takes.
double bd_layer_sum_seconds(const bd_layer_space *space, int op, int operand,
                            const bd_sharding *gradient);

// Backward ops of a forward op, or with -1 those of none, divided evenly over all ranks; the sums
// of a value's gradients aside.
double bd_layer_even_backward_seconds(const bd_layer_space *space, int group);

// All of them together: no choice has a backward function that takes less.
double bd_layer_least_backward_seconds(const bd_layer_space *space);
#endif
