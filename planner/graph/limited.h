// Private to bounds by the slowest stage: with every stage no slower than a limit, the least sum of
// all stages is a shortest path over (stage, first layer, devices, mode). Settings of one chunk;
// all in seconds of a step.
#ifndef BD_PLANNER_GRAPH_LIMITED_H
#define BD_PLANNER_GRAPH_LIMITED_H
#include "planner/graph/intervals.h"

// Sums of the same seconds may come in another order.
#define BD_LIMITED_ROUNDING 1e-12

typedef struct bd_limited_parent {
  int first, state, mode;
} bd_limited_parent;

// Cells are [stage][first][state][mode]: a stage that begins so, its own devices taken.
typedef struct bd_limited_paths {
  bd_layers_intervals *intervals;
  size_t cells;
  double *before; // the least sum of the stages before
  bd_limited_parent *parents;
} bd_limited_paths;

// One way on from a stage: the next one begins at its end. Nothing follows the last stage.
typedef struct bd_limited_passage {
  size_t to;
  double sum, rest; // of the stage, with what it receives and sends
} bd_limited_passage;

// False: there are too many cells. Lives in ctx->arena.
bool bd_limited_open(bd_ctx *ctx, bd_layers_intervals *intervals, bd_limited_paths *out_paths);

size_t bd_limited_cell(const bd_limited_paths *paths, int stage, int first, int state, int mode);

// The last layer that a stage may begin with; the first end of one that begins so; the end beyond
// which it does not fit, or is slower than the limit.
int bd_limited_last_first(const bd_limited_paths *paths, int stage);
int bd_limited_first_end(const bd_limited_paths *paths, int stage, int first);
int bd_limited_last_end(const bd_limited_paths *paths, int stage, int mode, int first,
                        double limit);
// Modes that may follow a stage, as many as to be tried: one stands for none after the last.
int bd_limited_nexts(const bd_limited_paths *paths, int stage);

// False: devices are lacking, or the stage does not fit, or is slower than the limit.
bool bd_limited_find_passage(const bd_limited_paths *paths, int stage, int first, int state,
                             int mode, int end, int next, double limit,
                             bd_limited_passage *out_passage);

// Fills in `before` and `parents`, and returns the least sum with no stage slower than the limit;
// INFINITY: there is none. Not whole when the intervals are stopped.
double bd_limited_least_sum(bd_limited_paths *paths, double limit);
#endif
