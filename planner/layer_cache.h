// Layers that settings share: a function without tied weights does not care where those lie, so its
// bounds and candidates are found once.
#ifndef BD_PLANNER_LAYER_CACHE_H
#define BD_PLANNER_LAYER_CACHE_H
#include "planner/layer.h"

typedef struct bd_layer_cache bd_layer_cache;

bd_layer_cache *bd_layer_cache_create(bd_ctx *ctx);

// As bd_layer_bound and bd_layer_candidates, which see.
BD_NODISCARD bd_status bd_layer_cache_bound(bd_ctx *ctx, bd_layer_cache *cache,
                                            const bd_layer_request *request, double *out_seconds);
BD_NODISCARD bd_status bd_layer_cache_candidates(bd_ctx *ctx, bd_layer_cache *cache,
                                                 const bd_layer_request *request,
                                                 bd_layer_candidate **out_candidates,
                                                 int *out_count);
#endif
