// What the stages of a pipeline of one chunk per stage add at least from some layer on, by dynamic
// programming from the last stage to the first, devices aside.
#ifndef BD_PLANNER_GRAPH_AHEAD_H
#define BD_PLANNER_GRAPH_AHEAD_H
#include "planner/graph/fronts.h"

// Each on its own; INFINITY: no plan begins so.
typedef struct bd_ahead_least {
  double fill, rest, second; // the sum of fill; the largest rest and second rest
  // Of fill, and of both rests a part: the mean over all stages, and the share of the stages'
  // weights.
  double mean, share;
} bd_ahead_least;

typedef struct bd_ahead {
  const bd_fronts *fronts;
  bd_ahead_least *at; // see bd_ahead_of
} bd_ahead;

// By the meter of the fronts, which are built; false: that is too much work. Lives in ctx->arena.
bool bd_ahead_open(bd_ctx *ctx, const bd_fronts *fronts, bd_ahead *out_ahead);

// From stage `stage` on, which begins with layer `first` in mode `mode` and form `form`, what it
// receives aside.
const bd_ahead_least *bd_ahead_of(const bd_ahead *ahead, int stage, int first, int mode, int form);
#endif
