// Which ops of a backward function compute what its forward function has computed.
#ifndef BD_CODEGEN_RECOMPUTED_H
#define BD_CODEGEN_RECOMPUTED_H
#include "ir/module.h"

// Per op of `backward` the op of `forward` that makes the same of the same values, collectives
// included, or -1. Lives in ctx->arena.
const int *bd_recomputed_find(bd_ctx *ctx, const bd_function *forward, const bd_function *backward);
#endif
