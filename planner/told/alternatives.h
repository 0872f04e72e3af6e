// What was considered beside the chosen plan: degrees and meshes, each with its best plan.
#ifndef BD_PLANNER_TOLD_ALTERNATIVES_H
#define BD_PLANNER_TOLD_ALTERNATIVES_H
#include "ir/plan.h"

typedef struct bd_alternatives {
  int count, capacity;
  bd_alternative *items;
  bool schedules;            // they differ in their schedules as well
  const bd_cluster *cluster; // ... and in the groups of it that have their devices; NULL: not so
} bd_alternatives;

// `lacking` bytes over the cap, or none when it is not positive.
void bd_alternatives_note_plan(bd_ctx *ctx, bd_alternatives *alternatives, const bd_plan *plan,
                               int64_t lacking);
// No plan of some micro-batches on this mesh takes less; INFINITY: there is none.
void bd_alternatives_note_bound(bd_ctx *ctx, bd_alternatives *alternatives, int stages,
                                const bd_mesh *mesh, double seconds);
// Adds those of a plan whose schedule they have, its own not among them, to alternatives that
// differ in their schedules.
void bd_alternatives_take(bd_ctx *ctx, bd_alternatives *alternatives, const bd_plan *from);
// Makes of the alternatives of the plan `before`, and of that itself, those of the plan that takes
// its place, in ctx->arena. `schedules` and `cluster` as of bd_alternatives.
void bd_alternatives_replace(bd_ctx *ctx, const bd_plan *before, bool schedules,
                             const bd_cluster *cluster, bd_plan *plan);
// Adds a plan for some groups of the cluster alone to the alternatives of one for all, in
// ctx->arena.
void bd_alternatives_add(bd_ctx *ctx, const bd_plan *other, const bd_cluster *cluster,
                         bd_plan *plan);
// Fills the plan's alternatives: the most promising first, a few, that of the least bound among
// them, its own degree and mesh left out.
void bd_alternatives_list(bd_ctx *ctx, const bd_alternatives *alternatives, bd_plan *plan);
#endif
