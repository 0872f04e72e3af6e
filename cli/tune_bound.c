#include "cli/tune.h"
#include <math.h>

// What the plan says of its bound.
static const char *last_words(const bd_choice *open, bool found, bool bounds) {
  if (bounds) return open->plan.search;
  if (found) return "its products are in parts, by a rate that no search had: there is no bound";
  return "the search by the last rates found no plan in its time: there is no bound";
}

void bd_tune_bound(bd_ctx *ctx, const bd_tuning *t, const bd_measurement *kept, bd_plan *plan) {
  const bd_choice *open = &t->choices[0];
  bool found = open->found && open->rates == t->rates, bounds = found && !kept->parts;
  plan->bound_seconds = bounds ? fmin(open->plan.bound_seconds, plan->step_seconds) : 0;
  plan->gap = plan->bound_seconds > 0 ? plan->step_seconds / plan->bound_seconds - 1 : 0;
  plan->search = bd_intern_f(ctx, "the fastest of %d tried; %s", t->measured_count,
                             last_words(open, found, bounds));
}
