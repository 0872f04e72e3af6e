// How much the devices of each group count in bounds.
#ifndef BD_PLANNER_GRAPH_WEIGHTS_H
#define BD_PLANNER_GRAPH_WEIGHTS_H
#include "planner/graph/setting.h"

// Fills mode_weight, capacity and work_before of a setting that is open otherwise. Any weights give
// a bound; these are near the best.
void bd_layers_weigh(bd_ctx *ctx, bd_layers_setting *setting);

// What counts of an option's rest: the part that is a sum over layers.
double bd_layers_linear_rest(const bd_layers_setting *setting, const bd_layers_criteria *criteria);
// What a second of each criterion counts in it.
bd_layers_criteria bd_layers_linear_weight(const bd_layers_setting *setting);
#endif
