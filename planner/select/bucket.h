// The best strategies for a set of free nodes, the others staying as they are: the free nodes are
// eliminated one by one, each leaving a table over its neighbours (bucket elimination; Dechter,
// "Bucket elimination: a unifying framework for reasoning", Artificial Intelligence 113, 1999).
// Nodes whose elimination would cost too much are held at their present strategy instead.
#ifndef BD_PLANNER_SELECT_BUCKET_H
#define BD_PLANNER_SELECT_BUCKET_H
#include "planner/select/state.h"

// At most so many free nodes, and so many in the scope of a table.
enum { BD_SELECT_MOST_FREE = 1024, BD_SELECT_MOST_SCOPE = 16 };

typedef struct bd_select_bucket bd_select_bucket;

// `entries`: room for the tables of one elimination. Lives in ctx->arena.
bd_select_bucket *bd_select_bucket_create(bd_ctx *ctx, const bd_select_model *model,
                                          size_t entries);

// The nodes to free, all different, and for each the strategies to choose from: allowed[start[k]]
// to allowed[start[k + 1] - 1].
typedef struct bd_select_free_set {
  int count;
  int node[BD_SELECT_MOST_FREE], start[BD_SELECT_MOST_FREE + 1];
  int *allowed; // as many as the model has strategies
} bd_select_free_set;

// Frees nodes and plans an order. No elimination looks at more than `cap` combinations; `random`
// decides which nodes are held instead. `choice`: the present strategies. Keeps `set`.
void bd_select_bucket_plan(bd_select_bucket *bucket, const bd_select_free_set *set,
                           const int *choice, double cap, uint64_t *random);

// The nodes that are free after planning, in the order of trials.
int bd_select_bucket_count(const bd_select_bucket *bucket);
int bd_select_bucket_node(const bd_select_bucket *bucket, int index);

// The least sum of costs, and of usages at the prices of points; writes a strategy per free node.
// INFINITY when every combination has a forbidden pair.
double bd_select_bucket_solve(bd_select_bucket *bucket, const int *point, const double *price,
                              int priced, int *out_trial);

// The cost of strategies of the free nodes, without prices.
double bd_select_bucket_cost(const bd_select_bucket *bucket, const int *trial);

// Matrix and table entries looked at so far.
double bd_select_bucket_work(const bd_select_bucket *bucket);
#endif
