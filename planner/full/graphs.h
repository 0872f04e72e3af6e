// The layer graphs of the full space: about a plan, where a bound leaves room for better ones, and
// where nothing fits.
#ifndef BD_PLANNER_FULL_GRAPHS_H
#define BD_PLANNER_FULL_GRAPHS_H
#include "planner/full/bound.h"
#include "planner/full/space.h"
#include "planner/told/alternatives.h"

// Gaps up to this are not looked into.
#define BD_FULL_NEARLY 1.01

// What was found so far. Plans live in ctx->arena.
typedef struct bd_full_graphs {
  bd_ctx *ctx;
  bd_workers *workers;
  int ahead;           // so many graphs are solved side by side
  bd_full_space space; // where layer graphs are posed
  bd_deadline deadline;
  bool cut; // the clock, or the user, ended a part of the search
  bool found;
  bd_plan best;
  double told_seconds; // that its layer graph takes the best plan for; 0: it is of none
  int64_t over_bytes;  // of the leanest plan that does not fit: above its cap; 0: there is none
  bd_plan leanest;
  int posed, meshes, solved; // graphs, the meshes of them, plans
  bd_alternatives alternatives;
} bd_full_graphs;

// For a search on so many threads, which `workers` has. Lives in ctx->arena.
bd_full_graphs bd_full_graphs_open(bd_ctx *ctx, bd_workers *workers, int threads);

// Looks for plans that are faster than the best, with micro-batches about that of `near`; NULL:
// with small ones.
BD_NODISCARD bd_status bd_full_look(bd_full_graphs *graphs, const bd_plan *near);

// The same in the parts of the space that have the least bounds, as long as these are lower by more
// than BD_FULL_NEARLY.
BD_NODISCARD bd_status bd_full_look_at(bd_full_graphs *graphs, const bd_full_bounds *bounds);

// The same among the stages of the best plan, with its micro-batch and schedule, where no plan
// takes less than `bound`, which leaves room. Layers have more candidates there.
BD_NODISCARD bd_status bd_full_look_again(bd_full_graphs *graphs, double bound);

// Where nothing was found: looks for the leanest plans, of micro-batches as in bd_full_look. Such a
// plan may fit, since that was looked into in a hurry: then it is found.
BD_NODISCARD bd_status bd_full_seek_leanest(bd_full_graphs *graphs, const bd_plan *near);
#endif
