// Local search among the candidates of a layer, on what they take when they are lowered.
#include "planner/layer/state.h"
#include <math.h>
#include <string.h>

enum { SWEEPS = 3 };
// By how much a step must be better.
#define BETTER 1e-9

typedef struct polishing {
  bd_ctx *ctx;
  bd_layer *layer;
  int in_flight, layers;
  double price;
  bd_layer_candidate at; // where it stands
  bd_layer_candidate **list;
  int *count;
  bool moved;
} polishing;

// All layers of a stage have one workspace.
static double value_of(const polishing *p, const bd_layer_candidate *c) {
  double bytes =
      p->in_flight * (double)c->tape_bytes + (double)c->workspace_bytes / (double)p->layers;
  return bd_layer_seconds(p->layer->request, c, 1) + p->price * bytes;
}

static bool differs_in_tape_alone(const bd_layer_option *a, const bd_layer_option *b) {
  return memcmp(a->split, b->split, sizeof a->split) == 0 &&
         memcmp(a->scatter, b->scatter, sizeof a->scatter) == 0 && a->spread == b->spread &&
         a->spread_axes == b->spread_axes && (a->kept != b->kept || a->how != b->how);
}

static bd_status try_option(polishing *p, int node, int option) {
  const bd_choice_problem *problem = &p->layer->problem;
  bd_ctx *ctx = p->ctx;
  double seconds, bytes;
  int *options = bd_arena_copy(ctx->arena, p->at.option, problem->nodes, sizeof *options);
  options[node] = option;
  bd_choice_evaluate(problem, options, &seconds, &bytes);
  if (!isfinite(seconds)) return BD_OK;
  bd_layer_candidate next;
  BD_TRY(bd_layer_make_candidate(ctx, p->layer, p->at.form, options, &next));
  if (value_of(p, &next) >= value_of(p, &p->at) * (1 - BETTER)) return BD_OK;
  p->at = next;
  p->moved = true;
  if (bd_layer_was_measured(ctx, p->layer, options)) return BD_OK;
  *p->list = bd_arena_grow(ctx->arena, *p->list, (size_t)*p->count, (size_t)*p->count + 1,
                           sizeof **p->list);
  bd_layer_keep(p->layer->request, *p->list, p->count, &next);
  return BD_OK;
}

// Where polishing began before, which would go the same way again.
struct bd_polished {
  const int *option;
  double price;
  int in_flight, layers;
};

static bool was_polished(const polishing *p) {
  bd_layer *layer = p->layer;
  size_t bytes = sizeof *p->at.option * (size_t)layer->problem.nodes;
  for (int i = 0; i < layer->polished_count; i++) {
    const struct bd_polished *known = &layer->polished[i];
    bool same = known->price == p->price &&
                (p->price == 0 || (known->in_flight == p->in_flight && known->layers == p->layers));
    if (same && memcmp(known->option, p->at.option, bytes) == 0) return true;
  }
  if (layer->polished_count == layer->polished_capacity) {
    int wanted = layer->polished_capacity ? 2 * layer->polished_capacity : 16;
    layer->polished = bd_arena_grow(p->ctx->arena, layer->polished, (size_t)layer->polished_count,
                                    (size_t)wanted, sizeof *layer->polished);
    layer->polished_capacity = wanted;
  }
  layer->polished[layer->polished_count++] =
      (struct bd_polished){p->at.option, p->price, p->in_flight, p->layers};
  return false;
}

bd_status bd_layer_polish(bd_ctx *ctx, bd_layer *layer, int in_flight, double price, int layers,
                          const bd_layer_candidate *from, bd_layer_candidate **candidates,
                          int *count, bool *out_new) {
  polishing p = {ctx, layer, in_flight, layers, price, *from, candidates, count, true};
  p.at.form = from->option[layer->space.cluster_count];
  int before = layer->measured_count;
  *out_new = false;
  if (was_polished(&p)) return BD_OK;
  for (int sweep = 0; sweep < SWEEPS && p.moved; sweep++) {
    p.moved = false;
    for (int node = 0; node < layer->space.cluster_count; node++) {
      const bd_cluster_ops *cluster = &layer->space.clusters[node];
      for (int o = 0; o < cluster->option_count; o++)
        if (differs_in_tape_alone(&cluster->options[p.at.option[node]], &cluster->options[o]))
          BD_TRY(try_option(&p, node, o));
    }
  }
  *out_new = layer->measured_count > before;
  return BD_OK;
}
