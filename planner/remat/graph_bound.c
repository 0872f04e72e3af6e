#include "planner/remat/graph_bound.h"
#include <stdlib.h>
#include <string.h>

typedef struct item {
  int node;
  double density;
} item;

static int by_density(const void *a, const void *b) {
  const item *x = a, *y = b;
  if (x->density != y->density) return x->density < y->density ? -1 : 1;
  return x->node - y->node;
}

static int by_most(const void *a, const void *b) {
  const bd_graph_cut *x = a, *y = b;
  if (x->most != y->most) return x->most > y->most ? -1 : 1;
  return x->node - y->node;
}

// The least cost of giving up items of `excess` bytes, the last of them in part. An item counts
// when it is resident or still to come.
static double give_up(const bd_graph *graph, const bd_graph_cut *cut, int t,
                      const uint64_t *resident) {
  int64_t excess = -cut->room;
  for (int i = 0; i < cut->item_count; i++)
    if (cut->items[i] >= t || bd_set_has(resident, cut->items[i]))
      excess += graph->bytes[cut->items[i]];
  double cost = 0;
  for (int i = 0; excess > 0 && i < cut->item_count; i++) {
    int node = cut->items[i];
    if (node < t && !bd_set_has(resident, node)) continue;
    int64_t bytes = graph->bytes[node];
    cost +=
        bytes <= excess ? graph->cost[node] : graph->cost[node] * ((double)excess / (double)bytes);
    excess -= bytes;
  }
  return cost;
}

static bool read_after(const bd_graph *graph, int node, int cut) {
  return bd_set_next(bd_graph_consumers(graph, node), graph->words, cut + 1) >= 0;
}

static void init_cut(bd_ctx *ctx, const bd_graph *graph, int64_t budget, int node,
                     bd_graph_cut *out) {
  item *items = BD_NEW_ARRAY(ctx->arena, item, node + 1);
  *out = (bd_graph_cut){.node = node, .room = budget - graph->bytes[node]};
  for (int i = 0; i < node; i++) {
    if (bd_set_has(bd_graph_inputs(graph, node), i)) {
      out->room -= graph->bytes[i];
    } else if (graph->bytes[i] > 0 && read_after(graph, i, node)) {
      items[out->item_count++] = (item){i, graph->cost[i] / (double)graph->bytes[i]};
    }
  }
  qsort(items, (size_t)out->item_count, sizeof *items, by_density);
  out->items = BD_NEW_ARRAY(ctx->arena, int, out->item_count);
  for (int i = 0; i < out->item_count; i++)
    out->items[i] = items[i].node;
  out->most = give_up(graph, out, 0, NULL);
}

static void init_useful(bd_ctx *ctx, const bd_graph *graph, bd_graph_bound *out) {
  size_t words = (size_t)graph->words;
  out->useful = BD_NEW_ARRAY(ctx->arena, uint64_t, (size_t)(graph->nodes + 1) * words);
  uint64_t *reached = BD_NEW_ARRAY(ctx->arena, uint64_t, words);
  for (int t = graph->nodes - 1; t >= 0; t--) {
    const uint64_t *inputs = bd_graph_inputs(graph, t);
    for (size_t i = 0; i < words; i++)
      reached[i] |= inputs[i];
    for (int x = t - 1; x >= 0; x--)
      if (bd_set_has(reached, x))
        for (size_t i = 0; i < words; i++)
          reached[i] |= bd_graph_inputs(graph, x)[i];
    for (int x = 0; x < t; x++)
      if (bd_set_has(reached, x)) bd_set_add(out->useful + (size_t)t * words, x);
  }
}

void bd_graph_bound_init(bd_ctx *ctx, const bd_graph *graph, int64_t budget, bd_graph_bound *out) {
  *out = (bd_graph_bound){.graph = graph, .budget = budget};
  out->rest = BD_NEW_ARRAY(ctx->arena, double, graph->nodes + 1);
  for (int t = graph->nodes - 1; t >= 0; t--)
    out->rest[t] = out->rest[t + 1] + graph->cost[t];
  init_useful(ctx, graph, out);
  out->cuts = BD_NEW_ARRAY(ctx->arena, bd_graph_cut, graph->nodes);
  for (int t = 0; t < graph->nodes; t++) {
    init_cut(ctx, graph, budget, t, &out->cuts[out->cut_count]);
    if (out->cuts[out->cut_count].most > 0) out->cut_count++;
  }
  qsort(out->cuts, (size_t)out->cut_count, sizeof *out->cuts, by_most);
}

double bd_graph_bound_of(const bd_graph_bound *bound, int t, const uint64_t *resident,
                         uint64_t *missing) {
  const bd_graph *graph = bound->graph;
  const uint64_t *useful = bd_graph_useful(bound, t);
  double cost = bound->rest[t], most = 0;
  memset(missing, 0, (size_t)graph->words * sizeof *missing);
  for (int x = t - 1; x >= 0; x--) {
    if (!bd_set_has(useful, x) || bd_set_has(resident, x)) continue;
    const uint64_t *consumers = bd_graph_consumers(graph, x);
    if (!bd_set_meets(consumers, missing, graph->words) &&
        bd_set_next(consumers, graph->words, t) < 0)
      continue;
    bd_set_add(missing, x);
    cost += graph->cost[x];
  }
  for (int i = 0; i < bound->cut_count && bound->cuts[i].most > most; i++) {
    if (bound->cuts[i].node < t) continue;
    double here = give_up(graph, &bound->cuts[i], t, resident);
    most = here > most ? here : most;
  }
  return cost + most;
}
