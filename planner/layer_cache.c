#include "planner/layer_cache.h"

typedef struct entry {
  const bd_function *function;
  bd_mesh mesh;
  int64_t micro_batch;
  bd_boundary boundary;
  int in_flight, micro_batches;
  bool bounded, solved;
  double bound_seconds;
  bd_layer_candidate *candidates;
  int candidate_count;
  struct entry *next;
} entry;

struct bd_layer_cache {
  entry *first;
};

bd_layer_cache *bd_layer_cache_create(bd_ctx *ctx) {
  return BD_NEW(ctx->arena, bd_layer_cache);
}

// Whether some weight is stored as the boundary says.
static bool has_tied(const bd_layer_request *request) {
  const bd_function *f = request->function;
  for (int p = 0; p < f->param_count; p++) {
    int uses = 0;
    for (int i = 0; f->is_weight[p] && i < f->op_count; i++)
      for (int o = 0; o < f->ops[i].in_count; o++)
        uses += f->ops[i].in[o] == f->params[p];
    if (request->tied[p] || uses > 1) return true;
  }
  return false;
}

static bool same_mesh(const bd_mesh *a, const bd_mesh *b) {
  if (a->axes != b->axes) return false;
  for (int axis = 0; axis < a->axes; axis++)
    if (a->size[axis] != b->size[axis]) return false;
  return true;
}

static entry *find(bd_ctx *ctx, bd_layer_cache *cache, const bd_layer_request *request) {
  bd_boundary boundary = request->boundary;
  if (!has_tied(request)) boundary.tied = bd_sharding_replicated();
  for (entry *e = cache->first; e; e = e->next)
    if (e->function == request->function && e->micro_batch == request->cost.micro_batch &&
        e->in_flight == request->in_flight && e->micro_batches == request->micro_batches &&
        same_mesh(&e->mesh, &request->cost.mesh) &&
        bd_sharding_equal(&e->boundary.activation, &boundary.activation) &&
        bd_sharding_equal(&e->boundary.tied, &boundary.tied))
      return e;
  entry *e = BD_NEW(ctx->arena, entry);
  *e = (entry){.function = request->function,
               .mesh = request->cost.mesh,
               .micro_batch = request->cost.micro_batch,
               .boundary = boundary,
               .in_flight = request->in_flight,
               .micro_batches = request->micro_batches,
               .next = cache->first};
  return cache->first = e;
}

bd_status bd_layer_cache_bound(bd_ctx *ctx, bd_layer_cache *cache, const bd_layer_request *request,
                               double *out_seconds) {
  entry *e = find(ctx, cache, request);
  if (!e->bounded) BD_TRY(bd_layer_bound(ctx, request, &e->bound_seconds));
  e->bounded = true;
  *out_seconds = e->bound_seconds;
  return BD_OK;
}

bd_status bd_layer_cache_candidates(bd_ctx *ctx, bd_layer_cache *cache,
                                    const bd_layer_request *request,
                                    bd_layer_candidate **out_candidates, int *out_count) {
  entry *e = find(ctx, cache, request);
  if (!e->solved) BD_TRY(bd_layer_candidates(ctx, request, &e->candidates, &e->candidate_count));
  e->solved = true;
  *out_candidates = e->candidates;
  *out_count = e->candidate_count;
  return BD_OK;
}
