// Pipelines of one chunk per stage, by dynamic programming over stages.
#ifndef BD_PLANNER_GRAPH_CHAIN_H
#define BD_PLANNER_GRAPH_CHAIN_H
#include "planner/graph/fronts.h"

// How much is kept: ways per interval and form, partial plans per state.
typedef struct bd_layers_effort {
  int ways, labels;
  bd_layers_meter *meter;
  int64_t most_work; // by the meter
  bool thorough;     // bounds by prices (prices.h) come before partial plans
} bd_layers_effort;

typedef struct bd_layers_outcome {
  bool found;
  bd_layers_plan plan; // in ctx->arena
  double seconds;
  double bound; // no plan of the setting takes less
  bool cut;     // there was more work than the effort allows
} bd_layers_outcome;

// Plans of a setting below `cutoff` seconds. Nothing is left out that could be better unless there
// is more than the effort keeps. `out_bound` is the cutoff when there are none. With `bound_only`,
// what would be left out is replaced by what is at least as good, so that no plan is found but the
// bound is close.
BD_NODISCARD bd_status bd_layers_chain(bd_ctx *ctx, const bd_layers_setting *setting,
                                       const bd_layers_effort *effort, double cutoff,
                                       bool bound_only, bd_layers_outcome *out_outcome);
#endif
