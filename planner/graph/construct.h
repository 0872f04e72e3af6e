// A plan of a setting at once: stages alike, layers cut evenly, options by a price of a byte.
#ifndef BD_PLANNER_GRAPH_CONSTRUCT_H
#define BD_PLANNER_GRAPH_CONSTRUCT_H
#include "planner/graph/chain.h"

// For every mode and form: all stages are of that mode, all layers of that form. Each stage runs
// its fastest options, or where they exceed the cap, those that are fastest under the least price
// of a byte that keeps to it (Lagrange). What is found is below `cutoff` seconds by
// bd_layers_measure and keeps to the caps. The bound is that of the setting.
void bd_layers_construct(bd_ctx *ctx, const bd_layers_setting *setting, double cutoff,
                         bd_layers_outcome *out_outcome);
#endif
