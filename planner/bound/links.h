// What it takes that neighbouring layers differ in the form of activations.
//
// A layer that reads what the one before it makes, in another form, needs it changed, and hands its
// gradient back to be changed as well, on a stage or between two. So the layers of a chain, of
// which each has the form that suits it best, are bounded by those of the best chain of forms.
#ifndef BD_PLANNER_BOUND_LINKS_H
#define BD_PLANNER_BOUND_LINKS_H
#include "planner/space.h"

// Of a pair of forms [from * form_count + to], seconds of a micro-batch.
typedef struct bd_links {
  int form_count;
  const double *const *change; // per layer but the last, in the order of calls: to the next
  // Likewise, bytes on a rank of the largest value that passes to the next layer at least, and of
  // the largest gradient that comes back.
  const double *there_bytes, *back_bytes;
} bd_links;

// Of a model on a mesh; they live in ctx->arena.
const bd_links *bd_links_find(bd_ctx *ctx, const bd_module *train, const bd_model_runs *runs,
                              const bd_cost_model *cost, int form_count, const bd_sharding *forms);

// `chain`, per form, is what a chain that begins with layer `layer` + 1 takes at least; becomes the
// same with `layer` before it, which takes `of_form`, and changes, which count `weight` times.
// Without a chain, `first`, that layer is its last. `links` NULL: there is one form. Returns the
// least of all forms.
double bd_links_add(const bd_links *links, int layer, const double *of_form, double weight,
                    bool first, double *chain);

// The least of a chain of all layers; `of_form` per run.
double bd_links_sum(bd_ctx *ctx, const bd_links *links, const bd_model_runs *runs,
                    const double *const *of_form, double weight);
#endif
