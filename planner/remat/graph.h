// Recomputation on graphs: in which order to compute values, and which of them twice or more, so
// that what is resident at any time fits in a budget, at least total cost.
//
// The problem is that of Jain et al., "Checkmate: Breaking the Memory Wall with Optimal Tensor
// Rematerialization", MLSys 2020, section 4: every value is computed at least once, the first
// computations in the order of the nodes' numbers; while one is computed its inputs and its output
// are resident; nothing has to stay to the end.
#ifndef BD_PLANNER_REMAT_GRAPH_H
#define BD_PLANNER_REMAT_GRAPH_H
#include "planner/remat/answer.h"

enum { BD_GRAPH_MAX_NODES = 1024 };
#define BD_GRAPH_MAX_BYTES INT64_C(1000000000000000)

// Sets of nodes are bits in `words` words.
typedef struct bd_graph {
  int nodes, words;
  double *cost;                 // of one computation of a node
  int64_t *bytes;               // of its value
  uint64_t *inputs, *consumers; // `words` per node; inputs have smaller numbers
} bd_graph;

typedef enum bd_graph_step { BD_GRAPH_COMPUTE, BD_GRAPH_DROP } bd_graph_step;
extern const char *const bd_graph_words[];

static inline bool bd_set_has(const uint64_t *set, int node) {
  return set[node / 64] >> (node % 64) & 1;
}
static inline void bd_set_add(uint64_t *set, int node) {
  set[node / 64] |= UINT64_C(1) << (node % 64);
}
static inline void bd_set_remove(uint64_t *set, int node) {
  set[node / 64] &= ~(UINT64_C(1) << (node % 64));
}
static inline const uint64_t *bd_graph_inputs(const bd_graph *graph, int node) {
  return graph->inputs + (size_t)node * (size_t)graph->words;
}
static inline const uint64_t *bd_graph_consumers(const bd_graph *graph, int node) {
  return graph->consumers + (size_t)node * (size_t)graph->words;
}
bool bd_set_meets(const uint64_t *a, const uint64_t *b, int words);
bool bd_set_within(const uint64_t *a, const uint64_t *b, int words);
// The next member of `set` from `node` on, or -1.
int bd_set_next(const uint64_t *set, int words, int node);

// Errors: BD_INVALID with place.
BD_NODISCARD bd_status bd_graph_read(bd_ctx *ctx, const char *file, const char *data, size_t bytes,
                                     bd_graph *out_graph);

// The cost of computing everything once.
double bd_graph_base(const bd_graph *graph);
// What one computation needs at most: no budget below works.
int64_t bd_graph_widest(const bd_graph *graph);
// The peak when nothing is computed twice and values are dropped after their last use.
int64_t bd_graph_full(const bd_graph *graph);

// Searches a sequence of least cost within `budget` bytes until about `deadline`; steps, cost
// and a valid bound of `*out` are set. Deterministic when the search ends before the deadline does
// (cost == bound). Errors, without a diagnostic: BD_INFEASIBLE when there is no sequence,
// BD_EXHAUSTED when none was found in time.
BD_NODISCARD bd_status bd_graph_solve(bd_ctx *ctx, const bd_graph *graph, int64_t budget,
                                      bd_deadline deadline, bd_remat_answer *out);
// The smallest budget known to work, by halving between the widest and the full one.
int64_t bd_graph_smallest_budget(bd_ctx *ctx, const bd_graph *graph, bd_deadline deadline);

// Executes the steps, knowing nothing of how they were found. Errors: BD_INTERNAL when a step lacks
// an input, when a value is computed or dropped in vain, or when a node is left out.
BD_NODISCARD bd_status bd_graph_replay(bd_ctx *ctx, const bd_graph *graph,
                                       const bd_remat_steps *steps, double *out_cost,
                                       int64_t *out_peak);
#endif
