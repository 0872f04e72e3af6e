// What the intervals of layers may take that better plans are made of: settings of one chunk, by
// the slowest stage (limited.h). All in seconds of a step.
#ifndef BD_PLANNER_GRAPH_WINDOWS_H
#define BD_PLANNER_GRAPH_WINDOWS_H
#include "planner/graph/intervals.h"

// What an interval of layers may take on a stage in a mode: of fill and priced sync, and of the
// slowest stage's part that is a sum over layers. Negative: it is of no plan below the cutoff.
typedef struct bd_layers_window {
  double sum, rest;
} bd_layers_window;

typedef struct bd_layers_windows {
  bd_layers_intervals *intervals;
  bd_layers_window *at; // as the intervals
  int *reach;           // [stage][mode][first]: the last end that may be; 0: none
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
