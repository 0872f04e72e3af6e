// Executes a sequence of steps on a graph and counts bytes: the judge of bd_graph_solve.
#include "planner/remat/graph.h"

typedef struct machine {
  const bd_graph *graph;
  bool *resident;
  int next; // nodes before it have been computed
  int64_t live, peak;
  double cost;
} machine;

static bool compute(machine *m, int node) {
  const bd_graph *graph = m->graph;
  if (m->resident[node] || node > m->next) return false;
  for (int i = 0; i < node; i++)
    if (bd_set_has(bd_graph_inputs(graph, node), i) && !m->resident[i]) return false;
  m->resident[node] = true;
  m->cost += graph->cost[node];
  m->live += graph->bytes[node];
  if (m->live > m->peak) m->peak = m->live;
  if (node == m->next) m->next++;
  return true;
}

static bool drop(machine *m, int node) {
  if (!m->resident[node]) return false;
  m->resident[node] = false;
  m->live -= m->graph->bytes[node];
  return true;
}

bd_status bd_graph_replay(bd_ctx *ctx, const bd_graph *graph, const bd_remat_steps *steps,
                          double *out_cost, int64_t *out_peak) {
  machine m = {.graph = graph, .resident = BD_NEW_ARRAY(ctx->arena, bool, graph->nodes)};
  for (int i = 0; i < steps->count; i++) {
    const bd_remat_step *step = &steps->step[i];
    bool good = step->at >= 0 && step->at < graph->nodes &&
                (step->what == BD_GRAPH_COMPUTE ? compute(&m, step->at) : drop(&m, step->at));
    if (!good)
      return bd_fail(ctx, BD_INTERNAL, BD_NOWHERE, "step %d of the graph's sequence is impossible",
                     i);
  }
  if (m.next != graph->nodes)
    return bd_fail(ctx, BD_INTERNAL, BD_NOWHERE, "the graph's sequence leaves out node %d", m.next);
  *out_cost = m.cost;
  *out_peak = m.peak;
  return BD_OK;
}
