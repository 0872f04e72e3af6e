#include "cli/explain.h"
#include <math.h>
#include <string.h>

static void add_name(bd_text *text, const char *name) {
  bd_text_add_printable(text, name, strlen(name));
}

static void add_seconds(bd_text *text, double seconds) {
  if (seconds >= 1 || seconds == 0)
    bd_text_addf(text, "%.2f s", seconds);
  else if (seconds >= 1e-3)
    bd_text_addf(text, "%.1f ms", seconds * 1e3);
  else
    bd_text_addf(text, "%.1f us", seconds * 1e6);
}

static void add_head(const bd_plan *plan, const bd_told_strategy *strategies, bd_text *text) {
  bd_text_add(text, "model       ");
  add_name(text, plan->model);
  bd_text_addf(text, ", %s, %s, on %s\n", bd_dtype_name(plan->precision), plan->optimizer,
               plan->target);
  bd_text_addf(text, "ranks       %d = %d stage%s x a mesh of ", bd_plan_ranks(plan), plan->stages,
               plan->stages == 1 ? "" : "s");
  for (int axis = 0; axis < plan->mesh.axes; axis++)
    bd_text_addf(text, "%s%d", axis ? "x" : "", plan->mesh.size[axis]);
  bd_text_addf(text, "%s, %d thread%s each\n", plan->mesh.axes ? "" : "1", plan->threads_per_rank,
               plan->threads_per_rank == 1 ? "" : "s");
  bd_explain_mesh(plan, strategies, text);
  int micro_batches = bd_plan_micro_batches(plan);
  bd_text_addf(text, "step        %lld sample%s", (long long)plan->global_batch,
               plan->global_batch == 1 ? "" : "s");
  if (plan->sequence) bd_text_addf(text, " of %lld tokens", (long long)plan->sequence);
  bd_text_addf(text, ", in %d micro-batch%s of %lld, schedule %s\n", micro_batches,
               micro_batches == 1 ? "" : "es", (long long)plan->micro_batch,
               bd_schedule_name(plan->schedule));
  bd_text_add(text, "optimizer   ");
  if (!plan->zero_axes) bd_text_add(text, "states on every replica (ZeRO 0)\n");
  for (int axis = 0, first = 1; axis < plan->mesh.axes; axis++)
    if (plan->zero_axes >> axis & 1u) {
      bd_text_addf(text, first ? "states split over mesh axis %d" : ", %d", axis);
      first = 0;
    }
  if (plan->zero_axes) bd_text_add(text, " (ZeRO 1)\n");
}

static void add_stages(const bd_plan *plan, bd_text *text) {
  bd_text_add(text, "\nstages (calls of main, by strategy)\n");
  for (int stage = 0; stage < plan->stages; stage++) {
    bd_text_addf(text, "  %-3d", stage);
    bool first = true;
    for (int i = 0; i < plan->range_count; i++) {
      const bd_layer_range *range = &plan->ranges[i];
      if (range->stage != stage) continue;
      bd_text_add(text, first ? "" : ", ");
      if (range->count > 1)
        bd_text_addf(text, "%d-%d ", range->first, range->first + range->count - 1);
      else
        bd_text_addf(text, "%d ", range->first);
      add_name(text, plan->strategies[range->strategy].name);
      first = false;
    }
    bd_text_add(text, first ? "nothing\n" : "\n");
  }
}

static void add_share(bd_text *text, const char *what, double seconds, double whole) {
  bd_text_addf(text, "  %-10s", what);
  add_seconds(text, seconds);
  bd_text_addf(text, " (%.0f %%)\n", whole > 0 ? 100 * seconds / whole : 0);
}

static void add_times(const bd_plan *plan, bd_text *text) {
  bd_step_split split = bd_explain_split(plan);
  bd_text_add(text, "\npredicted step ");
  add_seconds(text, plan->step_seconds);
  if (plan->step_seconds > 0)
    bd_text_addf(text, ", %.5g %s/s", (double)bd_explain_units(plan) / plan->step_seconds,
                 plan->sequence ? "tokens" : "samples");
  bd_text_add(text, "\n");
  add_share(text, "forward", split.forward_seconds, plan->step_seconds);
  add_share(text, "backward", split.backward_seconds, plan->step_seconds);
  add_share(text, "sync", split.sync_seconds, plan->step_seconds);
  add_share(text, "bubble", split.bubble_seconds, plan->step_seconds);
}

static void add_search(const bd_plan *plan, bd_text *text) {
  bd_text_add(text, "\nsearch      ");
  add_name(text, plan->search && *plan->search ? plan->search : "none");
  bd_text_add(text, "\n");
  if (plan->bound_seconds > 0) {
    bd_text_add(text, "bound       ");
    add_seconds(text, plan->bound_seconds);
    bd_text_addf(text, "; the plan is within %.2f %% of the best in this space\n", 100 * plan->gap);
  }
  if (plan->alternative_count) bd_text_add(text, "\nalternatives\n");
  for (int i = 0; i < plan->alternative_count; i++) {
    const bd_alternative *other = &plan->alternatives[i];
    bd_text_add(text, "  ");
    add_name(text, other->what);
    bd_text_add(text, ": ");
    if (other->lacking_bytes > 0) {
      bd_text_add(text, "does not fit, lacks ");
      bd_text_add_bytes(text, other->lacking_bytes);
    } else if (isfinite(other->step_seconds)) {
      add_seconds(text, other->step_seconds);
      if (plan->step_seconds > 0)
        bd_text_addf(text, " (%+.1f %%)", 100 * (other->step_seconds / plan->step_seconds - 1));
    } else if (isfinite(other->bound_seconds)) {
      bd_text_add(text, "at least ");
      add_seconds(text, other->bound_seconds);
    } else {
      bd_text_add(text, "not possible");
    }
    bd_text_add(text, "\n");
  }
}

void bd_explain_page(const bd_plan *plan, const bd_told_strategy *strategies, bool with_ops,
                     bd_text *text) {
  add_head(plan, strategies, text);
  add_stages(plan, text);
  bd_explain_strategies(plan, strategies, with_ops, text);
  add_times(plan, text);
  bd_explain_memory(plan, text);
  add_search(plan, text);
}
