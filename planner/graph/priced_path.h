// The best plan under prices: a shortest path over layers, parts, modes and forms.
#ifndef BD_PLANNER_GRAPH_PRICED_PATH_H
#define BD_PLANNER_GRAPH_PRICED_PATH_H
#include "planner/graph/prices.h"

// What is chosen under prices. It need not be a plan: parts of a stage may differ in mode, and
// neither caps nor devices are kept to.
typedef struct bd_priced_path {
  int *part, *option, *mode; // per layer; mode: of its part
} bd_priced_path;

bd_priced_path bd_priced_path_new(bd_ctx *ctx, int layers);

// Seconds that no plan is below, as the prices say, after bd_layers_prices_apply. Fills to_go and
// after. INFINITY: there is no path, under no prices; minus INFINITY: there is no time; NaN: the
// prices are out of range. `ready` is set where it is none of these.
double bd_priced_path_least(bd_layers_prices *prices);
// The path of which that is the least; prices are ready.
void bd_priced_path_trace(const bd_layers_prices *prices, bd_priced_path *out_path);
#endif
