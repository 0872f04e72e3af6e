// Local search among the candidates of a layer, on what they take when they are lowered.
#include "planner/layer/pool.h"
#include "planner/layer/state.h"
#include <math.h>
#include <string.h>

enum { SWEEPS = 3 };
// By how much a step must be better.
#define BETTER 1e-9

typedef struct polishing {
  bd_ctx *ctx;
  bd_layer *layer;
  bd_layer_stage stage;
  bool others;
  bd_layer_candidate at; // where it stands
  bd_layer_candidate **list;
  int *count;
  bool moved;
} polishing;

// All layers of a stage have one workspace. What a form hands on is the same for all candidates.
static double value_of(const polishing *p, const bd_layer_candidate *c) {
  double bytes = (double)(c->weight_bytes + c->gradient_bytes + c->optimizer_bytes[p->stage.zero]) +
                 p->stage.in_flight * (double)c->tape_bytes +
                 (double)c->workspace_bytes / (double)p->stage.layers;
  return bd_layer_seconds(p->layer->request, c, p->stage.zero) + p->stage.price * bytes;
}

// No candidate of these options is worth less, as costs of options are bounds.
static double least_value(const polishing *p, const int *options) {
  double seconds, usage, bytes = 0;
  bd_choice_evaluate(&p->layer->problem, options, &seconds, &usage);
  for (int i = 0; i < p->layer->space.cluster_count; i++)
    bytes += p->layer->state[i][options[i]] + p->stage.in_flight * p->layer->tape[i][options[i]];
  return seconds + p->stage.price * bytes;
}

static bool differs_in_tape_alone(const bd_layer_option *a, const bd_layer_option *b) {
  return memcmp(a->split, b->split, sizeof a->split) == 0 &&
         memcmp(a->scatter, b->scatter, sizeof a->scatter) == 0 && a->spread == b->spread &&
         a->spread_axes == b->spread_axes && (a->kept != b->kept || a->how != b->how);
}

static bd_status try_option(polishing *p, int node, int option) {
  bd_ctx *ctx = p->ctx;
  bd_layer_candidate next;
  int *options = bd_arena_copy(ctx->arena, p->at.option, p->layer->problem.nodes, sizeof *options);
  options[node] = option;
  BD_TRY(bd_layer_make_candidate(ctx, p->layer, p->at.form, options, &next));
  if (value_of(p, &next) >= value_of(p, &p->at) * (1 - BETTER)) return BD_OK;
  p->at = next;
  p->moved = true;
  if (bd_layer_was_measured(ctx, p->layer, options)) return BD_OK;
  *p->list = bd_arena_grow(ctx->arena, *p->list, (size_t)*p->count, (size_t)*p->count + 2,
                           sizeof **p->list);
  bd_layer_keep(p->layer->request, *p->list, p->count, &next);
  return BD_OK;
}

// Options of a cluster that may be better: those that keep other values, or, of all others, the
// most promising.
static bd_status try_cluster(polishing *p, int node, int *options) {
  const bd_cluster_ops *cluster = &p->layer->space.clusters[node];
  double least = INFINITY;
  int best = -1;
  for (int o = 0; o < cluster->option_count; o++) {
    int now = p->at.option[node];
    if (o == now ||
        differs_in_tape_alone(&cluster->options[now], &cluster->options[o]) == p->others)
      continue;
    memcpy(options, p->at.option, sizeof *options * (size_t)p->layer->problem.nodes);
    options[node] = o;
    if (!bd_layer_pools_agree(&p->layer->space, options)) continue;
    double value = least_value(p, options);
    if (value >= fmin(least, value_of(p, &p->at) * (1 - BETTER))) continue;
    if (p->others) {
      least = value;
      best = o;
    } else {
      BD_TRY(try_option(p, node, o));
    }
  }
  return best < 0 ? BD_OK : try_option(p, node, best);
}

// Where polishing began before, which would go the same way again.
struct bd_polished {
  const int *option;
  bd_layer_stage stage;
  bool others;
};

// What tapes and workspaces are shared by means nothing where bytes are worth nothing.
static bool same_stage(const bd_layer_stage *a, const bd_layer_stage *b) {
  return a->price == b->price && a->zero == b->zero &&
         (a->price == 0 || (a->in_flight == b->in_flight && a->layers == b->layers));
}

static bool was_polished(const polishing *p) {
  bd_layer *layer = p->layer;
  size_t bytes = sizeof *p->at.option * (size_t)layer->problem.nodes;
  for (int i = 0; i < layer->polished_count; i++) {
    const struct bd_polished *known = &layer->polished[i];
    bool same = known->others == p->others && same_stage(&known->stage, &p->stage);
    if (same && memcmp(known->option, p->at.option, bytes) == 0) return true;
  }
  if (layer->polished_count == layer->polished_capacity) {
    int wanted = layer->polished_capacity ? 2 * layer->polished_capacity : 16;
    layer->polished = bd_arena_grow(p->ctx->arena, layer->polished, (size_t)layer->polished_count,
                                    (size_t)wanted, sizeof *layer->polished);
    layer->polished_capacity = wanted;
  }
  layer->polished[layer->polished_count++] =
      (struct bd_polished){p->at.option, p->stage, p->others};
  return false;
}

bd_status bd_layer_polish(bd_ctx *ctx, bd_layer *layer, const bd_layer_stage *stage, bool others,
                          const bd_layer_candidate *from, bd_layer_candidate **candidates,
                          int *count, bool *out_new) {
  polishing p = {ctx, layer, *stage, others, *from, candidates, count, true};
  int *options = BD_NEW_ARRAY(ctx->arena, int, layer->problem.nodes);
  p.at.form = from->option[layer->space.cluster_count];
  int before = layer->measured_count;
  *out_new = false;
  if (was_polished(&p)) return BD_OK;
  for (int sweep = 0; sweep < SWEEPS && p.moved; sweep++) {
    p.moved = false;
    for (int node = 0; node < layer->space.cluster_count; node++)
      BD_TRY(try_cluster(&p, node, options));
  }
  *out_new = layer->measured_count > before;
  return BD_OK;
}
