// Candidates of a layer: measured, and none worse than another.
#include "planner/layer/pool.h"
#include "planner/layer/state.h"
#include <math.h>
#include <string.h>

static int64_t persistent(const bd_layer_candidate *c) {
  return c->weight_bytes + c->gradient_bytes + c->optimizer_bytes[0];
}

double bd_layer_seconds(const bd_layer_request *request, const bd_layer_candidate *c, int zero) {
  return c->forward_seconds + c->backward_seconds + c->sync_seconds[zero] / request->passes;
}

static bool dominates(const bd_layer_request *request, const bd_layer_candidate *a,
                      const bd_layer_candidate *b) {
  for (int zero = 0; zero < 2; zero++)
    if (bd_layer_seconds(request, a, zero) > bd_layer_seconds(request, b, zero)) return false;
  return a->form == b->form && persistent(a) <= persistent(b) &&
         a->optimizer_bytes[1] <= b->optimizer_bytes[1] && a->tape_bytes <= b->tape_bytes &&
         a->workspace_bytes <= b->workspace_bytes;
}

static void keep(const bd_layer_request *request, bd_layer_candidate *list, int *count,
                 const bd_layer_candidate *candidate) {
  for (int i = 0; i < *count; i++)
    if (dominates(request, &list[i], candidate)) return;
  int kept = 0;
  for (int i = 0; i < *count; i++)
    if (!dominates(request, candidate, &list[i])) list[kept++] = list[i];
  list[kept++] = *candidate;
  *count = kept;
}

void bd_layer_keep(const bd_layer_request *request, bd_layer_candidate *list, int *count,
                   const bd_layer_candidate *candidate) {
  keep(request, list, count, candidate);
  if (candidate->leaner) keep(request, list, count, candidate->leaner);
}

bool bd_layer_was_measured(bd_ctx *ctx, bd_layer *layer, const int *option) {
  size_t bytes = sizeof *option * (size_t)layer->problem.nodes;
  for (int i = 0; i < layer->measured_count; i++)
    if (memcmp(layer->measured[i], option, bytes) == 0) return true;
  if (layer->measured_count == layer->measured_capacity) {
    int wanted = layer->measured_capacity ? 2 * layer->measured_capacity : 64;
    layer->measured = bd_arena_grow(ctx->arena, layer->measured, (size_t)layer->measured_count,
                                    (size_t)wanted, sizeof *layer->measured);
    layer->measured_capacity = wanted;
  }
  layer->measured[layer->measured_count++] = option;
  return false;
}

enum { BUCKETS = 256 };

struct bd_made_candidate {
  struct bd_made_candidate *next; // of its bucket
  bd_layer_candidate candidate;
};

// Where the candidates of choices lie that share this one's bucket.
static struct bd_made_candidate **bucket_of(bd_ctx *ctx, bd_layer *layer, const int *option) {
  uint32_t hash = 0;
  for (int i = 0; i < layer->problem.nodes; i++)
    hash = hash * 31 + (uint32_t)option[i];
  if (!layer->made) layer->made = BD_NEW_ARRAY(ctx->arena, struct bd_made_candidate *, BUCKETS);
  return &layer->made[hash % BUCKETS];
}

// A candidate, measured; if its ranks swap queries, the one whose ranks do not as well.
static bd_status measure_both(bd_ctx *ctx, bd_layer *layer, const bd_layer_candidate *bare,
                              bd_layer_candidate *out) {
  *out = *bare;
  BD_TRY(bd_layer_measure(ctx, layer->request, out));
  if (!out->strategy.balanced) return BD_OK;
  bd_layer_candidate *in_order = BD_NEW(ctx->arena, bd_layer_candidate);
  *in_order = *bare;
  in_order->in_order = true;
  BD_TRY(bd_layer_measure(ctx, layer->request, in_order));
  if (in_order->workspace_bytes < out->workspace_bytes) out->leaner = in_order;
  return BD_OK;
}

bd_status bd_layer_make_candidate(bd_ctx *ctx, bd_layer *layer, int form, const int *option,
                                  bd_layer_candidate *out) {
  size_t bytes = sizeof *option * (size_t)layer->problem.nodes;
  struct bd_made_candidate **bucket = bucket_of(ctx, layer, option), *made = *bucket;
  while (made && memcmp(made->candidate.option, option, bytes) != 0)
    made = made->next;
  if (!made) {
    made = BD_NEW(ctx->arena, struct bd_made_candidate);
    const bd_layer_candidate bare = {
        .form = form,
        .option = option,
        .strategy = bd_layer_strategy(ctx, &layer->space, option),
        .proven_seconds = layer->least_seconds,
    };
    BD_TRY(measure_both(ctx, layer, &bare, &made->candidate));
    made->next = *bucket;
    *bucket = made;
  }
  *out = made->candidate;
  return BD_OK;
}

bd_status bd_layer_add_candidate(bd_ctx *ctx, bd_layer *layer, int form, const int *option,
                                 bd_layer_candidate *list, int *count) {
  bd_layer_candidate candidate;
  if (bd_layer_was_measured(ctx, layer, option)) return BD_OK;
  BD_TRY(bd_layer_make_candidate(ctx, layer, form, option, &candidate));
  bd_layer_keep(layer->request, list, count, &candidate);
  return BD_OK;
}

// What is best at a price, for every form that has candidates.
static bd_status add_priced(bd_ctx *ctx, bd_layer *layer, int in_flight, double price,
                            bd_layer_point *out, bd_layer_candidate *list, int *count) {
  int forms = layer->request->form_count;
  bool *wanted = BD_NEW_ARRAY(ctx->arena, bool, forms);
  if (!bd_layer_eliminate(ctx, layer, 1, price, in_flight, out)) {
    out->option = NULL;
    return BD_OK;
  }
  for (int k = 0; k < *count; k++)
    wanted[list[k].form] = true;
  for (int form = 0; form < forms; form++) {
    int *option = BD_NEW_ARRAY(ctx->arena, int, layer->problem.nodes);
    if (wanted[form] && isfinite(bd_elimination_choose(layer->elimination, form, option)) &&
        bd_layer_mend_pools(ctx, layer, 1, price, option))
      BD_TRY(bd_layer_add_candidate(ctx, layer, form, option, list, count));
  }
  return BD_OK;
}

bd_status bd_layer_reprice(bd_ctx *ctx, bd_layer *layer, int in_flight, double price, int layers,
                           bd_layer_candidate **candidates, int *count, bool *out_new) {
  bd_layer_point point;
  int moment, before = layer->measured_count, room = *count + 4 * layer->request->form_count;
  *out_new = false;
  *candidates =
      bd_arena_grow(ctx->arena, *candidates, (size_t)*count, (size_t)room, sizeof **candidates);
  BD_TRY(add_priced(ctx, layer, in_flight, price, &point, *candidates, count));
  if (!point.option) return BD_OK;
  bd_layer_workspace_of(layer, point.option, &moment);
  bd_layer_hold_workspace(ctx, layer, moment, 1.0 / layers);
  bd_status status = add_priced(ctx, layer, in_flight, price, &point, *candidates, count);
  bd_layer_hold_workspace(ctx, layer, moment, 0);
  *out_new = layer->measured_count > before;
  return status;
}
