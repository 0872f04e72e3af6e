// The problem in the form the search works on: nodes that still have a choice, one edge per pair of
// them, times as points, everything else added up.
#ifndef BD_PLANNER_SELECT_MODEL_H
#define BD_PLANNER_SELECT_MODEL_H
#include "planner/select/domain.h"

typedef struct bd_select_link {
  int edge;
  int other;  // the node at the other end
  bool first; // whether this node's strategies are the rows
} bd_select_link;

typedef struct bd_select_model {
  int nodes, edges, points;
  int *origin;           // of each node: its number in the problem
  int *start;            // nodes + 1: the first strategy of each node
  int *strategy;         // of each strategy: its number within the problem's node
  double *cost;          // of each strategy; finite
  int64_t *usage;        // of each strategy
  int *first, *last;     // of each node: alive at the points [first, last)
  int *low, *high;       // of each edge: its nodes, low < high
  const double **matrix; // of each edge: a row per strategy of `low`; INFINITY: forbidden
  int *link_start;       // nodes + 1
  bd_select_link *link;  // of each node, by ascending other node
  int64_t *room;         // of each point: the limit less the usages of nodes without a choice
  double forbidden;      // what a forbidden pair counts where a finite number is wanted
  // What every choice costs beside the above, exactly; INT64_MAX: more than fits. The costs of and
  // between nodes without a choice, and the least of a node's or an edge's where that is large.
  int64_t constant;
  int *fixed; // of each node of the problem: its only strategy, or -1
} bd_select_model;

static inline int bd_select_degree(const bd_select_model *model, int node) {
  return model->link_start[node + 1] - model->link_start[node];
}

static inline int bd_select_choices(const bd_select_model *model, int node) {
  return model->start[node + 1] - model->start[node];
}

// The constant and a cost above it, which is rounded up when it is not whole.
int64_t bd_select_model_total(const bd_select_model *model, double above);

// Builds it from the live strategies of a merged problem (see merge.h); costs of at least `forbid`
// become INFINITY. Every node has at least one live strategy. Lives in ctx->arena.
bd_select_model *bd_select_model_create(bd_ctx *ctx, const bd_select_problem *problem,
                                        const bd_select_times *times,
                                        const bd_select_domain *domain, int64_t forbid);

// Writes the strategy of every node of the problem, given one per node of the model.
void bd_select_model_expand(const bd_select_model *model, int problem_nodes, const int *choice,
                            int *out_choice);
#endif
