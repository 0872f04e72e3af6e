// Where the seconds of a step go.
#include "cli/explain.h"
#include <string.h>

void bd_explain_add_name(bd_text *text, const char *name) {
  bd_text_add_printable(text, name, strlen(name));
}

void bd_explain_add_seconds(bd_text *text, double seconds) {
  if (seconds >= 1 || seconds == 0)
    bd_text_addf(text, "%.2f s", seconds);
  else if (seconds >= 1e-3)
    bd_text_addf(text, "%.1f ms", seconds * 1e3);
  else
    bd_text_addf(text, "%.1f us", seconds * 1e6);
}

static int slowest_stage(const bd_plan *plan) {
  int slowest = 0;
  double most = -1;
  for (int s = 0; s < plan->stages; s++) {
    double seconds = plan->predicted[s].forward_seconds + plan->predicted[s].backward_seconds;
    if (seconds <= most) continue;
    most = seconds;
    slowest = s;
  }
  return slowest;
}

static int longest_sync(const bd_plan *plan) {
  int longest = 0;
  for (int s = 1; s < plan->stages; s++)
    if (plan->predicted[s].sync_seconds > plan->predicted[longest].sync_seconds) longest = s;
  return longest;
}

bd_step_split bd_explain_split(const bd_plan *plan) {
  const bd_stage_prediction *stage = &plan->predicted[slowest_stage(plan)];
  int micro_batches = bd_plan_micro_batches(plan);
  bd_step_split split = {.forward_seconds = micro_batches * stage->forward_seconds,
                         .backward_seconds = micro_batches * stage->backward_seconds,
                         .sync_seconds = plan->predicted[longest_sync(plan)].sync_seconds};
  double bubble =
      plan->step_seconds - split.forward_seconds - split.backward_seconds - split.sync_seconds;
  split.bubble_seconds = bubble > 1e-9 * plan->step_seconds ? bubble : 0;
  return split;
}

static void add_part(bd_time_part *parts, int *count, const char *name, int axis, double seconds) {
  parts[(*count)++] = (bd_time_part){.name = name, .axis = axis, .seconds = seconds};
}

int bd_explain_time_parts(const bd_plan *plan, bd_time_part out[BD_MAX_TIME_PARTS]) {
  bd_step_split split = bd_explain_split(plan);
  int count = 0, micro_batches = bd_plan_micro_batches(plan);
  if (!plan->details) {
    add_part(out, &count, "forward", -1, split.forward_seconds);
    add_part(out, &count, "backward", -1, split.backward_seconds);
    add_part(out, &count, "bubble", -1, split.bubble_seconds);
    add_part(out, &count, "sync", -1, split.sync_seconds);
    return count;
  }
  const bd_stage_details *slowest = &plan->details->stages[slowest_stage(plan)];
  const bd_stage_details *sync = &plan->details->stages[longest_sync(plan)];
  add_part(out, &count, "compute", -1,
           micro_batches * (slowest->compute_seconds - slowest->recompute_seconds));
  if (slowest->recompute_seconds > 0)
    add_part(out, &count, "recompute", -1, micro_batches * slowest->recompute_seconds);
  for (int kind = 0; kind < BD_TRAFFIC_COUNT; kind++)
    for (int axis = 0; axis < BD_MAX_AXES; axis++)
      if (slowest->traffic_seconds[kind][axis] > 0) {
        add_part(out, &count, bd_traffic_name((bd_traffic)kind), kind < BD_TRAFFIC_SEND ? axis : -1,
                 micro_batches * slowest->traffic_seconds[kind][axis]);
        out[count - 1].between_stages = kind >= BD_TRAFFIC_SEND;
      }
  if (slowest->aside_seconds > 0)
    add_part(out, &count, "set aside", -1, micro_batches * slowest->aside_seconds);
  add_part(out, &count, "bubble", -1, split.bubble_seconds);
  for (int axis = 0; axis < BD_MAX_AXES; axis++)
    if (sync->sync_seconds[axis] > 0)
      add_part(out, &count, BD_PART_SYNC, axis, sync->sync_seconds[axis]);
  add_part(out, &count, "update", -1, sync->update_seconds);
  return count;
}

double bd_explain_mfu(const bd_plan *plan) {
  const bd_plan_details *details = plan->details;
  if (!details || details->flops_per_second <= 0 || plan->step_seconds <= 0) return 0;
  return details->model_flops / plan->step_seconds / bd_plan_ranks(plan) /
         details->flops_per_second;
}

int64_t bd_explain_units(const bd_plan *plan) {
  return plan->global_batch * (plan->sequence ? plan->sequence : 1);
}

// "491 T" of flops.
static void add_flops(bd_text *text, double flops) {
  static const char units[] = " kMGTPEZ";
  int unit = 0;
  for (; flops >= 1000 && units[unit + 1]; unit++)
    flops /= 1000;
  bd_text_addf(text, "%.4g %.1sFLOP", flops, unit ? units + unit : "");
}

static void add_rate(const bd_plan *plan, bd_text *text) {
  double mfu = bd_explain_mfu(plan);
  if (mfu <= 0) return;
  const bd_plan_details *details = plan->details;
  bd_text_addf(text, "  MFU %.1f %%: ", 100 * mfu);
  add_flops(text, details->model_flops);
  bd_text_add(text,
              " a step (matrix products, convolutions and attention, forward and\n    backward, "
              "nothing twice) make ");
  add_flops(text, mfu * details->flops_per_second);
  bd_text_add(text, "/s a rank, of the ");
  add_flops(text, details->flops_per_second);
  bd_text_addf(text, "/s that the cluster's devices\n    reach in large %s products\n",
               bd_dtype_name(plan->precision));
}

void bd_explain_times(const bd_plan *plan, bd_text *text) {
  bd_time_part parts[BD_MAX_TIME_PARTS];
  int count = bd_explain_time_parts(plan, parts);
  bd_text_add(text, "\npredicted step ");
  bd_explain_add_seconds(text, plan->step_seconds);
  if (plan->step_seconds > 0)
    bd_text_addf(text, ", %.5g %s/s", (double)bd_explain_units(plan) / plan->step_seconds,
                 plan->sequence ? "tokens" : "samples");
  if (plan->stages > 1) bd_text_addf(text, "; on stage %d, the slowest", slowest_stage(plan));
  bd_text_add(text, "\n");
  for (int i = 0; i < count; i++) {
    size_t start = text->length;
    bd_text_addf(text, "  %s", parts[i].name);
    if (parts[i].axis >= 0) bd_text_addf(text, ", axis %d", parts[i].axis);
    while (text->length < start + 26)
      bd_text_add(text, " ");
    bd_explain_add_seconds(text, parts[i].seconds);
    bd_text_addf(text, " (%.0f %%)\n",
                 plan->step_seconds > 0 ? 100 * parts[i].seconds / plan->step_seconds : 0);
  }
  add_rate(plan, text);
}
