// What a step takes at least, from what its layers do.
#ifndef BD_PLANNER_BOUND_CHAIN_H
#define BD_PLANNER_BOUND_CHAIN_H
#include "planner/bound/bound.h"

// Least seconds of a step whose stages take `sum` together.
double bd_bound_step(const bd_scene *scene, int stages, int64_t micro_batch, double sum);

typedef struct bd_chain_bound {
  double seconds;      // of a step
  double free_seconds; // of the layers and messages of a micro-batch
} bd_chain_bound;

// `of_form`: per run, what one of its layers takes at least with each form of the links of
// `layers`, with the part of synchronization that falls to a micro-batch; without links, whatever
// the form. `layers` tell what backward takes of it at least; `moves`: what messages take. The
// layers are in order, so that the step takes what the best cut of their chain into the setting's
// stages does, or more.
bd_chain_bound bd_bound_chain(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                              const bd_setting_layers *layers, const double *const *of_form,
                              const bd_moves *moves);

// What backward takes of a layer of a run at least, open or sketched.
double bd_bound_backward(const bd_setting_layers *layers, int run);
#endif
