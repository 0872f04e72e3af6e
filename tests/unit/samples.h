// The samples of a tensor that a rank holds: what ops of pools are evaluated on, rank by rank.
#ifndef BD_TESTS_UNIT_SAMPLES_H
#define BD_TESTS_UNIT_SAMPLES_H
#include "ir/interpret.h"

// `count` samples from `first` on of a tensor whose first dimension is the batch; a copy in
// ctx->arena.
bd_tensor samples_take(bd_ctx *ctx, const bd_tensor *whole, int64_t first, int64_t count);
// Puts them back.
void samples_put(bd_tensor *whole, int64_t first, const bd_tensor *part);
#endif
