// A plan by simulated annealing (Kirkpatrick, Gelatt and Vecchi, 1983) on the cuts and options of a
// setting whose stages stand on fixed modes.
#ifndef BD_PLANNER_GRAPH_ANNEAL_H
#define BD_PLANNER_GRAPH_ANNEAL_H
#include "planner/graph/chain.h"

// Begins at `start`, which need not keep to the caps, and moves a layer over a boundary or changes
// an option `moves` times; searches of other seeds differ. `*out_found`: `out_best`, which has room
// for a plan, is one below `cutoff` seconds that keeps to the caps.
void bd_layers_anneal(bd_ctx *ctx, const bd_layers_setting *setting, const bd_layers_effort *effort,
                      const bd_layers_plan *start, int moves, int seed, double cutoff,
                      bd_layers_plan *out_best, bool *out_found);
#endif
