// Sets of nodes, and what a graph needs.
#include "planner/remat/graph.h"

const char *const bd_graph_words[] = {"compute", "drop"};

bool bd_set_meets(const uint64_t *a, const uint64_t *b, int words) {
  for (int i = 0; i < words; i++)
    if (a[i] & b[i]) return true;
  return false;
}

bool bd_set_within(const uint64_t *a, const uint64_t *b, int words) {
  for (int i = 0; i < words; i++)
    if (a[i] & ~b[i]) return false;
  return true;
}

int bd_set_next(const uint64_t *set, int words, int node) {
  if (node >= words * 64) return -1;
  int word = node / 64;
  uint64_t bits = set[word] >> (node % 64) << (node % 64);
  while (!bits) {
    if (++word == words) return -1;
    bits = set[word];
  }
  return word * 64 + __builtin_ctzll(bits);
}

double bd_graph_base(const bd_graph *graph) {
  double cost = 0;
  for (int i = 0; i < graph->nodes; i++)
    cost += graph->cost[i];
  return cost;
}

static int64_t bytes_of(const bd_graph *graph, const uint64_t *set) {
  int64_t bytes = 0;
  for (int i = bd_set_next(set, graph->words, 0); i >= 0; i = bd_set_next(set, graph->words, i + 1))
    bytes += graph->bytes[i];
  return bytes;
}

int64_t bd_graph_widest(const bd_graph *graph) {
  int64_t widest = 0;
  for (int i = 0; i < graph->nodes; i++) {
    int64_t bytes = graph->bytes[i] + bytes_of(graph, bd_graph_inputs(graph, i));
    widest = bytes > widest ? bytes : widest;
  }
  return widest;
}

static int last_use(const bd_graph *graph, int node) {
  int last = node;
  const uint64_t *consumers = bd_graph_consumers(graph, node);
  for (int i = bd_set_next(consumers, graph->words, 0); i >= 0;
       i = bd_set_next(consumers, graph->words, i + 1))
    last = i;
  return last;
}

int64_t bd_graph_full(const bd_graph *graph) {
  int64_t live = 0, peak = 0;
  for (int i = 0; i < graph->nodes; i++) {
    live += graph->bytes[i];
    peak = live > peak ? live : peak;
    for (int k = 0; k <= i; k++)
      if (last_use(graph, k) == i) live -= graph->bytes[k];
  }
  return peak;
}
