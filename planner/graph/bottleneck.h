// Settings of one chunk by the slowest stage: with every stage no slower than a limit, the least
// sum of all stages is a shortest path over (stage, first layer, devices, mode), and a plan takes
// at least that sum and its slowest stage, for every limit. Limits are tried from the largest down,
// each just below the slowest stage that was found (Minoux, Mathematical Programming 45, 1989; for
// pipelines: Zheng et al., Alpa, OSDI 2022). All in seconds of a step.
#ifndef BD_PLANNER_GRAPH_BOTTLENECK_H
#define BD_PLANNER_GRAPH_BOTTLENECK_H
#include "planner/graph/intervals.h"

// No plan below `cutoff` seconds takes less than `*out_bound`. `visit` is shown the cut of every
// limit, with the fastest options.
void bd_layers_bottleneck(bd_ctx *ctx, bd_layers_intervals *intervals, double cutoff,
                          void (*visit)(void *user, const bd_priced_path *path), void *user,
                          double *out_bound);

// What an interval of layers may take on a stage in a mode: of fill and priced sync, and of the
// slowest stage's part that is a sum over layers. Negative: it is of no plan below the cutoff.
typedef struct bd_layers_window {
  double sum, rest;
} bd_layers_window;

typedef struct bd_layers_windows {
  bd_layers_intervals *intervals;
  bd_layers_window *at; // as the intervals
  int *reach;           // [stage][mode][first]: the last end that may be; 0: none
  bool any;
} bd_layers_windows;

// False: there are too many, or no time. Lives in ctx->arena.
bool bd_layers_windows_open(bd_ctx *ctx, bd_layers_intervals *intervals, double cutoff,
                            bd_layers_windows *out_windows);
static inline int bd_layers_windows_reach(const bd_layers_windows *windows, int stage, int mode,
                                          int first) {
  const bd_layers_intervals *n = windows->intervals;
  return windows->reach[(stage * n->modes + mode) * n->layers + first];
}
static inline const bd_layers_window *bd_layers_window_at(const bd_layers_windows *windows,
                                                          int stage, int mode, int first, int end) {
  const bd_layers_intervals *n = windows->intervals;
  return &windows->at[bd_layers_interval_at(n, stage, mode, first, end) - n->at];
}
// Whether layers [first, last) run so, of the stage and mode that the intervals have in hand, may
// go on to an interval within its window. Bytes without the workspace.
bool bd_layers_windows_serve(const bd_layers_windows *windows, int stage, int mode, int first,
                             int last, bd_layers_hand seconds, double bytes, double workspace);
#endif
