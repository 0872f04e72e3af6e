// Which cuts of the chain of layers into stages a step has the time for, with what every layer
// takes at least (planner/bound/slowest.h).
#ifndef BD_PLANNER_BOUND_FILLING_H
#define BD_PLANNER_BOUND_FILLING_H
#include "planner/bound/bound.h"

enum { BD_WEIGHTS = 5 }; // of a micro-batch beside the step's end, that layers are priced with

// By run, what a layer takes at least.
typedef struct bd_weighed {
  const bd_scene *scene;
  const bd_setting *setting;
  bd_moves moves;
  // Per layer [stage * calls + layer], what messages take more where a stage ends with it; NULL:
  // wherever stages end.
  const bd_cut_moves *cut;
  double tie;                         // of the step's end on the first and on the last stage
  double sum;                         // of all stages
  const double *seconds, *backward;   // of a micro-batch
  int count, weights[BD_WEIGHTS];     // ascending
  const double *with_end[BD_WEIGHTS]; // so many micro-batches and the step's end, together
  double *held[2];                    // room for a number per layer and one more
} bd_weighed;

// Micro-batches of a stage that have gone forward before the first comes back, but for that.
int bd_weighed_ahead(const bd_scene *scene, const bd_setting *setting, int stage);

// So many micro-batches, and the step's end: the weight below it, and the rest at its fastest.
double bd_weighed_with_end(const bd_weighed *w, int run, double micro_batches);

// What messages take at each cut, where it differs; NULL: it does not, or cuts are too many to be
// looked at one by one. In ctx->arena.
const bd_cut_moves *bd_weighed_cuts(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                                    const bd_setting_layers *layers);

// What a step takes beside the sum of all stages at their fastest: the longest path through its
// passes, that and what follows the passes, and what follows alone, each at most.
typedef struct bd_step_limit {
  double path, rest, ends;
  double more; // messages take more than their least in all stages together, at least
} bd_step_limit;

// Whether the chain of layers can be cut so that every stage keeps to the limit.
bool bd_weighed_can_cut(const bd_weighed *w, bd_step_limit at);
#endif
