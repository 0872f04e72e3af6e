// A lower bound on what it still costs to compute a graph from some state on.
#ifndef BD_PLANNER_REMAT_GRAPH_BOUND_H
#define BD_PLANNER_REMAT_GRAPH_BOUND_H
#include "planner/remat/graph.h"

// The moment at which a node is computed for the first time: its inputs and it are resident, and
// of the values before it that later nodes read (`items`) only so many fit beside them.
typedef struct bd_graph_cut {
  int node, item_count;
  int *items; // by cost per byte, ascending
  int64_t room;
  double most; // the bound of this cut when all items are worth keeping
} bd_graph_cut;

typedef struct bd_graph_bound {
  const bd_graph *graph;
  int64_t budget;
  double *rest;       // per node t, and behind the last: the cost of t and all after it
  uint64_t *useful;   // per node t, and behind the last: ancestors of t and of those after it
  bd_graph_cut *cuts; // by `most`, descending; those that bind
  int cut_count;
} bd_graph_bound;

void bd_graph_bound_init(bd_ctx *ctx, const bd_graph *graph, int64_t budget, bd_graph_bound *out);
// Values before node t that may be read again.
static inline const uint64_t *bd_graph_useful(const bd_graph_bound *bound, int t) {
  return bound->useful + (size_t)t * (size_t)bound->graph->words;
}
// At least this much is still to be spent when the nodes before t have been computed and `resident`
// (of the useful ones) is there. `scratch`: words. What has been dropped and is read again is
// computed again; and at each cut what does not fit is, once more.
double bd_graph_bound_of(const bd_graph_bound *bound, int t, const uint64_t *resident,
                         uint64_t *scratch);
#endif
