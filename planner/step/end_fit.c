#include "planner/step/end_fit.h"
#include "planner/step/end.h"

// On a cluster on which only some of it takes seconds.
static bd_status end_on(bd_ctx *ctx, const bd_cluster *cluster, const bd_cost_model *model,
                        const bd_module *spmd, const bd_layout *layout, const bd_plan *plan,
                        bd_step_end *out_seconds) {
  bd_cost_model on = *model;
  on.cluster = cluster;
  return bd_step_end_of_stage(ctx, &on, spmd, layout, plan->optimizer, plan->zero_axes,
                              out_seconds);
}

// Bytes take a second each on one cluster, and starts of messages on the other.
static bd_status take_apart(bd_ctx *ctx, const bd_cost_model *model, const bd_module *spmd,
                            const bd_layout *layout, const bd_plan *plan, bd_fit_end *out) {
  bd_cluster slow = *model->cluster, far = slow;
  bd_step_end on_slow, on_far;
  slow.work.update_bytes_per_second = far.work.update_bytes_per_second = 1;
  slow.kernel_seconds = far.kernel_seconds = 0;
  slow.intra = slow.inter = (bd_link){.bytes_per_second = 1};
  far.intra = far.inter = (bd_link){.latency_seconds = 1, .bytes_per_second = 1e21};
  BD_TRY(end_on(ctx, &slow, model, spmd, layout, plan, &on_slow));
  BD_TRY(end_on(ctx, &far, model, spmd, layout, plan, &on_far));
  *out = (bd_fit_end){.update_bytes = on_slow.reduce + on_slow.update};
  for (int axis = 0; axis < plan->mesh.axes; axis++) {
    out->link_bytes += on_slow.collective[axis];
    out->latencies += on_far.collective[axis];
  }
  out->update_bytes -= out->link_bytes;
  return BD_OK;
}

bd_status bd_step_end_fit(bd_ctx *ctx, const bd_cost_model *model, const bd_module *spmd,
                          const bd_plan *plan, double seconds, bd_fit_rows *rows) {
  bd_layout layout;
  const bd_tie *ties;
  int tie_count;
  bd_step_end_ties(ctx, model, spmd, &ties, &tie_count);
  if (tie_count > 0 || rows->end_count == BD_FIT_MAX_ENDS) return BD_OK;
  BD_TRY(bd_layout_of_stage(ctx, spmd, 0, plan->schedule, bd_plan_micro_batches(plan),
                            plan->optimizer, plan->zero_axes, &layout));
  bd_fit_end *end = &rows->ends[rows->end_count];
  BD_TRY(take_apart(ctx, model, spmd, &layout, plan, end));
  end->seconds = seconds;
  rows->end_count++;
  return BD_OK;
}
