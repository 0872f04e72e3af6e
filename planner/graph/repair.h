// Plans near what prices choose: options that keep to the caps, then small moves.
#ifndef BD_PLANNER_GRAPH_REPAIR_H
#define BD_PLANNER_GRAPH_REPAIR_H
#include "planner/graph/chain.h"
#include "planner/graph/fit.h"
#include "planner/graph/priced_path.h"

typedef struct bd_layers_repair {
  const bd_layers_setting *setting;
  const bd_layers_prices *prices; // NULL: options are compared as if their stage was the slowest
  const bd_layers_effort *effort;
  double cutoff; // of what is found, in the end
  bool found;    // a plan that keeps to the caps
  bool begun;    // a plan, whatever it holds
  bd_layers_plan best;
  bd_layers_plan start; // the last path
  bd_layers_fit fit;    // of the plan that is tried
  bd_layers_stage *measured;
} bd_layers_repair;

// `out_repair` has its first four members set. Lives in ctx->arena.
void bd_layers_repair_open(bd_ctx *ctx, bd_layers_repair *out_repair);
// Cuts as the path does, each stage with the options that are fastest under the prices and the
// least further price of a byte that keeps to its cap. Paths that are of no plan are passed over.
void bd_layers_repair_path(bd_layers_repair *repair, const bd_priced_path *path);
// Anneals the best plan, or the last path where none keeps to the caps (anneal.h), and moves layers
// over boundaries and changes options for as long as that makes it shorter. `moves` at most, of
// each annealing.
void bd_layers_repair_anneal(bd_ctx *ctx, bd_layers_repair *repair, int moves);
// The last of it alone: moves layers of the best plan, which there is, over boundaries and changes
// options for as long as that makes it shorter.
void bd_layers_repair_polish(bd_layers_repair *repair);
#endif
