// Inputs and weights of a small model for the interpreter.
#ifndef TESTS_UNIT_IR_SUPPORT_ARGUMENTS_H
#define TESTS_UNIT_IR_SUPPORT_ARGUMENTS_H
#include "ir/interpret.h"

// Of main, but for its last parameter, the gradient of the loss: bf16 numbers, so that modules of
// any precision get the same; integers are below 5. In the context's arena.
bd_tensor *bf16_arguments(bd_ctx *ctx, const bd_module *module, int64_t samples);
#endif
