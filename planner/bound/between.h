// What a stage holds between its layers at least, beside what each of them hands on and back once.
#ifndef BD_PLANNER_BOUND_BETWEEN_H
#define BD_PLANNER_BOUND_BETWEEN_H
#include "planner/bound/bound.h"

// The values that pass between the layers of a setting, and the model's inputs.
typedef struct bd_between bd_between;

// Lives in ctx->arena. Values have the form, of those in `layers`, in which they are smallest.
bd_between *bd_between_open(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                            const bd_setting_layers *layers);

// A stage that begins with the layer `first` and has so many micro-batches in flight.
void bd_between_begin(bd_between *between, int first, int in_flight);

// Takes one more layer, the next, onto the stage. Returns the bytes of the stage with it: of what
// comes from before the stage and of inputs, and of gradients that come from behind it; what
// backward restores counts for every micro-batch in flight, of what the stage's own layers make all
// but once; sums of gradients; and on GPUs messages that are sent.
double bd_between_add(bd_between *between, int layer);
#endif
