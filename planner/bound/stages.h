// What a step takes at least, from the least seconds of every stage that the chain may be cut into.
#ifndef BD_PLANNER_BOUND_STAGES_H
#define BD_PLANNER_BOUND_STAGES_H
#include "planner/bound/bound.h"

// Where a table of `layers` layers in a chain tells of the stage with those from `from` to before
// `to`.
static inline size_t bd_stage_cell(int layers, int stage, int from, int to) {
  return ((size_t)stage * (size_t)(layers + 1) + (size_t)from) * (size_t)(layers + 1) + (size_t)to;
}

// `seconds`: of a micro-batch, with the part of synchronization that falls to it, by cells;
// INFINITY: none. `backward`: seconds that backward takes of all layers before each, one number
// more than there are layers, at least. `moves`: what messages take.
// The cuts of the least sum come first, then those of less on every stage, until the sum alone is
// as much as the best of them, or for a number of rounds, which leaves a bound as well. INFINITY:
// there is no cut.
double bd_bound_stages(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting, int layers,
                       const double *seconds, const double *backward, const bd_moves *moves);

// These seconds of backward, of open layers or of sketched ones. In ctx->arena.
const double *bd_bound_backward_before(bd_ctx *ctx, const bd_scene *scene,
                                       const bd_setting_layers *layers);
#endif
