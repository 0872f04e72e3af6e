// Settings of one chunk by the slowest stage: a plan takes at least the least sum of all stages
// with none slower than a limit (limited.h) and its slowest stage, for every limit. Limits are
// tried from the largest down, each just below the slowest stage that was found (Minoux,
// Mathematical Programming 45, 1989; for pipelines: Zheng et al., Alpa, OSDI 2022). All in seconds
// of a step.
#ifndef BD_PLANNER_GRAPH_BOTTLENECK_H
#define BD_PLANNER_GRAPH_BOTTLENECK_H
#include "planner/graph/intervals.h"

// No plan below `cutoff` seconds takes less than `*out_bound`. `visit` is shown the cut of every
// limit, with the fastest options.
void bd_layers_bottleneck(bd_ctx *ctx, bd_layers_intervals *intervals, double cutoff,
                          void (*visit)(void *user, const bd_priced_path *path), void *user,
                          double *out_bound);
#endif
