// Slices and reshapes of what a weight makes become slices and reshapes of the weight, so that
// heads, and the parts of a fused product, are dimensions and weights of their own.
#ifndef BD_IR_PASSES_RECOVER_PUSH_H
#define BD_IR_PASSES_RECOVER_PUSH_H
#include "ir/passes/recover/edit.h"

// A slice of a permutation is a permutation of a slice; a slice, or reshape, of a product with a
// weight, with or without a bias added, is a product with a slice, or reshape, of the weight.
bd_status bd_push_to_weights(bd_edit *e, const void *user);
// A product with a weight of what is only parted by a reshape is one with the weight, its
// dimensions joined.
bd_status bd_join_with_weights(bd_edit *e, const void *user);

// Weights that are read only as reshaped to one shape get that shape; those that are read only as
// slices that do not overlap become a weight each. For functions that are called once.
void bd_settle_weights(bd_ctx *ctx, bd_module *module, int *changes);
#endif
