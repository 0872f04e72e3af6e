// Weights that are read as one.
#ifndef BD_IR_PASSES_RECOVER_STACK_H
#define BD_IR_PASSES_RECOVER_STACK_H
#include "ir/module.h"

// Weights that functions only read joined become one weight, stored as before, where the names of
// the stored tensors count. Adds to *changes how many it made.
void bd_stack_weights(bd_ctx *ctx, bd_module *module, int *changes);
#endif
