// Private to elimination: which node goes next, and with which of the factors that see it.
#ifndef BD_PLANNER_CHOICE_ELIMINATE_ORDER_H
#define BD_PLANNER_CHOICE_ELIMINATE_ORDER_H
#include "planner/choice/eliminate_step.h"

// Factors, of which those that a step has taken are used.
typedef struct bd_factor_pool {
  int count;
  bd_factor *items;
  const int *live_count; // per node
  int64_t limit;         // entries visited by one step
} bd_factor_pool;

// The node that is not `gone` and not `last` whose elimination visits the fewest entries, or -1
// where all visit too many.
int bd_pool_cheapest_node(const bd_factor_pool *pool, int nodes, const bool *gone, int last);

// Whether a factor that is left sees the node.
bool bd_pool_sees(const bd_factor_pool *pool, int node);

// Takes the next of the buckets that a node's factors are put into, in order, each factor where it
// fits (mini-buckets: Dechter and Rish, Journal of the ACM 50, 2003, section 3); they live in
// `arena`. The other nodes that they see come to `out_scope`. Where one visits few enough entries,
// there is one bucket.
bd_factor **bd_pool_take_bucket(bd_arena *arena, bd_factor_pool *pool, int node, int *out_count,
                                bd_factor *out_scope);
#endif
