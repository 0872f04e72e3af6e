// What a plan will take: seconds and bytes, read off the program that it describes.
#include "ir/layout.h"
#include "planner/full/full.h"
#include "planner/full/stage.h"
#include "planner/layer/aside.h"
#include "planner/messages.h"
#include "planner/step/end.h"
#include "planner/step/step.h"
#include <math.h>
#include <string.h>

typedef struct timing {
  bd_ctx *ctx;
  const bd_module *train, *spmd;
  const bd_plan *plan;
  bd_cost_model cost;
  double *op_seconds; // per op of main
  int tie_count;
  const bd_tie *ties;
} timing;

static double callee_seconds(const bd_module *spmd, const double *function_seconds,
                             const char *callee) {
  for (int i = 0; i < spmd->function_count; i++)
    if (strcmp(spmd->functions[i]->name, callee) == 0) return function_seconds[i];
  return 0;
}

static bd_status time_main(timing *t) {
  const bd_module *spmd = t->spmd;
  double *function_seconds = BD_NEW_ARRAY(t->ctx->arena, double, spmd->function_count);
  t->op_seconds = BD_NEW_ARRAY(t->ctx->arena, double, spmd->main->op_count);
  for (int i = 0; i < spmd->function_count; i++)
    BD_TRY(bd_cost_function(t->ctx, &t->cost, spmd, spmd->functions[i], &function_seconds[i]));
  for (int i = 0; i < spmd->main->op_count; i++) {
    const bd_op *op = &spmd->main->ops[i];
    if (op->kind == BD_OP_CALL)
      t->op_seconds[i] = callee_seconds(spmd, function_seconds, op->callee);
    else
      BD_TRY(bd_cost_main_op(t->ctx, &t->cost, spmd->main, op, &t->op_seconds[i]));
  }
  return BD_OK;
}

// Ops of main up to the last forward call are of the forward pass, the others of backward.
static void add_passes(const timing *t, const bd_layout *layout, bd_stage_prediction *out) {
  const bd_function *main = t->spmd->main;
  for (int i = 0; i < main->op_count; i++) {
    const bd_op *op = &main->ops[i];
    if (op->stage != layout->stage) continue;
    *(i < layout->forward_ops ? &out->forward_seconds : &out->backward_seconds) += t->op_seconds[i];
    if (op->kind == BD_OP_SEND || op->kind == BD_OP_RECV) out->send_seconds += t->op_seconds[i];
  }
}

// Values kept compressed or in the host's memory.
static bd_status put_aside(const timing *t, const bd_layout *layout, bd_stage_prediction *out) {
  int64_t room = 0, *bytes = out->memory.bytes;
  for (int i = 0; i < t->plan->range_count; i++) {
    const bd_layer_range *range = &t->plan->ranges[i];
    const bd_strategy *strategy = &t->plan->strategies[range->strategy];
    if (range->stage != layout->stage || !strategy->kept) continue;
    bd_aside aside = bd_aside_of(&t->cost, bd_module_find(t->train, strategy->function), strategy);
    if (isinf(aside.forward_seconds))
      return bd_fail(t->ctx, BD_INVALID, strategy->loc,
                     "strategy '%s': values are compressed or offloaded, which saves no bytes here "
                     "or for which the cluster '%s' says nothing of links to the host",
                     strategy->name, t->cost.cluster->name);
    out->forward_seconds += range->count * aside.forward_seconds;
    out->backward_seconds += range->count * aside.backward_seconds;
    bytes[BD_SEGMENT_TAPE] -= range->count * layout->in_flight * aside.tape_bytes;
    out->memory.slot_bytes[BD_SEGMENT_TAPE] -= range->count * aside.tape_bytes;
    out->memory.total_bytes -= range->count * layout->in_flight * aside.tape_bytes;
    if (aside.room_bytes > room) room = aside.room_bytes;
  }
  bytes[BD_SEGMENT_WORKSPACE] += room;
  out->memory.total_bytes += room;
  return BD_OK;
}

static bd_status predict_stage(const timing *t, int stage, bd_stage_prediction *out) {
  const bd_plan *plan = t->plan;
  bd_layout layout;
  BD_TRY(bd_layout_of_stage(t->ctx, t->spmd, stage, plan->schedule, bd_plan_micro_batches(plan),
                            plan->optimizer, plan->zero_axes, &layout));
  out->memory = layout.memory;
  add_passes(t, &layout, out);
  BD_TRY(put_aside(t, &layout, out));
  bd_messages_tell(t->ctx, &t->cost, t->spmd, &layout, t->op_seconds, out);
  bd_step_end end;
  BD_TRY(bd_step_end_of_stage(t->ctx, &t->cost, t->spmd, &layout, plan->optimizer, plan->zero_axes,
                              &end));
  out->sync_seconds =
      end.reduce + end.update + bd_step_end_tie_seconds(&t->cost, stage, t->tie_count, t->ties);
  out->apply_seconds = end.update;
  return BD_OK;
}

static bd_status open_timing(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                             const bd_plan *plan, timing *out) {
  bd_module *sharded, *spmd;
  BD_TRY(bd_apply_plan(ctx, train, plan, &sharded));
  BD_TRY(bd_partition(ctx, sharded, &spmd));
  *out = (timing){.ctx = ctx, .train = train, .spmd = spmd};
  out->cost = (bd_cost_model){cluster, plan->mesh, plan->micro_batch};
  BD_TRY(time_main(out));
  bd_step_end_ties(ctx, &out->cost, spmd, &out->ties, &out->tie_count);
  return BD_OK;
}

static bd_status predict(timing *t, bd_plan *plan) {
  t->plan = plan;
  plan->predicted = BD_NEW_ARRAY(t->ctx->arena, bd_stage_prediction, plan->stages);
  for (int s = 0; s < plan->stages; s++)
    BD_TRY(predict_stage(t, s, &plan->predicted[s]));
  BD_TRY(bd_step_plan_seconds(t->ctx, plan, &plan->step_seconds));
  plan->gap = plan->bound_seconds > 0 ? plan->step_seconds / plan->bound_seconds - 1 : 0;
  return BD_OK;
}

bd_status bd_plan_predict(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                          bd_plan *plan) {
  timing t;
  bd_full_range range;
  if (bd_full_range_of(ctx, cluster, plan, &range)) {
    bd_plan alone = *plan;
    alone.stage_device = NULL;
    BD_TRY(bd_plan_predict(ctx, train, &range.cluster, &alone));
    plan->predicted = alone.predicted;
    plan->step_seconds = alone.step_seconds;
    plan->gap = alone.gap;
    return BD_OK;
  }
  if (bd_plan_is_full(plan)) return bd_plan_predict_full(ctx, train, cluster, plan);
  BD_TRY(open_timing(ctx, train, cluster, plan, &t));
  return predict(&t, plan);
}
