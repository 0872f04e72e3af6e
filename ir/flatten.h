// A module as one function, for running it in one go: the calls of main are replaced by the ops of
// their functions.
#ifndef BD_IR_FLATTEN_H
#define BD_IR_FLATTEN_H
#include "ir/module.h"

// main of a graph, in ctx->arena, with its parameters and results in their order.
bd_function *bd_module_flatten(bd_ctx *ctx, const bd_module *graph);
#endif
