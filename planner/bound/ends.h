// What a step takes at least where what follows its passes is told of all stages.
//
// A step takes what its passes do, and the longest end of a stage (step/step.h). Where that is from
// a to b, no stage's end is longer than b, so that a micro-batch on a stage takes at least (W -
// b)/w when its layers take W at least of w micro-batches and their end together, for every weight
// w. The passes of the best cut of the chain into stages of such seconds (bound/stages.h), and a,
// are what a step takes then; the least of it for all such a and b is what it takes. Layers so have
// no longer an end than there is time for on any stage, where bound/slowest.h has those of one
// stage alone so.
#ifndef BD_PLANNER_BOUND_ENDS_H
#define BD_PLANNER_BOUND_ENDS_H
#include "planner/bound/filling.h"

// Chains of layers with their changes of form, by span and weight: [from * (calls + 1) + to] tells
// of the layers from `from` to before `to`.
typedef struct bd_weighed_spans {
  const double *seconds;              // of a micro-batch
  const double *backward;             // bd_bound_backward_before
  const double *with_end[BD_WEIGHTS]; // so many micro-batches and the step's end, as in bd_weighed
} bd_weighed_spans;

// Whether the setting's cuts are few enough to be looked at one by one.
bool bd_ends_are_told(const bd_scene *scene, const bd_setting *setting);

// What layers take at least of `weight` micro-batches and the end, by span. `of_form`: per run, of
// one micro-batch with its part of the end, by form of the links; without links, whatever the form.
// In ctx->arena.
const double *bd_weighed_span(bd_ctx *ctx, const bd_scene *scene, const bd_links *links,
                              const double *const *of_form, double weight);

// A bound of `enough` seconds is not looked for further. `longest`: no end of a stage that matters
// is longer.
double bd_bound_ends(bd_ctx *ctx, const bd_weighed *weighed, const bd_weighed_spans *spans,
                     double longest, double enough);
#endif
