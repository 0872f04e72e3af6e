// Gathers of weights that may begin before other steps of their function, beside which they run.
#ifndef BD_CODEGEN_PREFETCH_H
#define BD_CODEGEN_PREFETCH_H
#include "ir/fuse.h"

// Per step of a placed function for GPUs: the step before which its work begins, which is the step
// itself but for gathers that are prefetched: of weights (ZeRO 3), into bytes of the workspace that
// no step in between touches. Parts lie one after another, so that the gather needs no memory
// beside.
const int *bd_prefetch_find(bd_ctx *ctx, const bd_module *module, const bd_function *function,
                            const bd_fusion *fusion);
#endif
