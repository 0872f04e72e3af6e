// Pipelines of several chunks per stage whose stages have given modes, layer by layer: partial
// plans with the sums of every stage.
#ifndef BD_PLANNER_GRAPH_WEAVE_H
#define BD_PLANNER_GRAPH_WEAVE_H
#include "planner/graph/chain.h"
#include "planner/graph/prices.h"

typedef struct bd_weaving {
  bd_ctx *ctx;
  const bd_layers_setting *setting;
  const bd_layers_problem *problem;
  const bd_layers_effort *effort;
  int parts;
  double cutoff;  // plans of so many seconds or more are not looked for; that of the best found
  double dropped; // the least bound of partial plans that were left out
  bool stopped;
  const bd_layers_prices *prices; // of the modes at hand, when they are ready
  // Of the modes at hand: per layer 0..layer_count the least sums of those from it on; the least
  // seconds of a layer on each stage.
  const int *mode; // per stage
  double *fill_after, *rest_after, *work_after;
  double weight;                     // of all stages
  double *least_layer;               // per stage
  struct bd_weave_list *here, *next; // per part
  struct bd_weave_stage *trial;      // of the partial plan that is tried
  int trail_count, trail_capacity;
  struct bd_weave_trail *trails;
  int best_trail; // -1: no plan was found
  int *best_mode;
} bd_weaving;

// Lives in ctx->arena; begins with no modes.
void bd_weaving_open(bd_ctx *ctx, const bd_layers_setting *setting, const bd_layers_effort *effort,
                     double cutoff, const bd_layers_prices *prices, bd_weaving *out_weaving);

// Counts work, and stops where there is more than the effort allows.
void bd_weaving_spend(bd_weaving *weaving, int64_t work);

// Takes modes in hand, a mode for every stage; returns what their plans take at least.
double bd_weaving_take(bd_weaving *weaving, const int *mode);

// Looks for plans with the modes at hand below the cutoff. Unless it is stopped, none takes less
// than the cutoff and than `dropped`.
void bd_weaving_run(bd_weaving *weaving);

// The best plan that was found, in ctx->arena.
void bd_weaving_trace(const bd_weaving *weaving, bd_layers_plan *out_plan);
#endif
