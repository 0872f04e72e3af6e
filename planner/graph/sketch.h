// Settings of one chunk at once: a bound close to the best, and a plan near it.
#ifndef BD_PLANNER_GRAPH_SKETCH_H
#define BD_PLANNER_GRAPH_SKETCH_H
#include "planner/graph/windows.h"

// By prices (prices.h), then by the slowest stage (bottleneck.h); what they choose is repaired and
// annealed. The plan, if any, takes less than `cutoff` seconds.
void bd_layers_sketch(bd_ctx *ctx, const bd_layers_setting *setting, const bd_layers_effort *effort,
                      double cutoff, bd_layers_outcome *out_outcome);

// Makes a plan of the setting that keeps to the caps, and takes `*seconds`, shorter by small moves
// (repair.h).
void bd_layers_touch_up(bd_ctx *ctx, const bd_layers_setting *setting,
                        const bd_layers_effort *effort, bd_layers_plan *plan, double *seconds);

// The windows of all intervals for plans below `cutoff` seconds, NULL: nothing is known of them.
// Lives in ctx->arena.
const bd_layers_windows *bd_layers_sketch_windows(bd_ctx *ctx, const bd_layers_setting *setting,
                                                  const bd_layers_effort *effort, double cutoff);
#endif
