// What a plan will take: seconds and bytes, read off the program that it describes.
#include "ir/layout.h"
#include "planner/full.h"
#include "planner/sync.h"
#include <string.h>

typedef struct timing {
  bd_ctx *ctx;
  const bd_module *spmd;
  const bd_plan *plan;
  bd_cost_model cost;
  double *function_seconds; // per function of the module
} timing;

static bd_status time_functions(timing *t) {
  t->function_seconds = BD_NEW_ARRAY(t->ctx->arena, double, t->spmd->function_count);
  for (int i = 0; i < t->spmd->function_count; i++)
    BD_TRY(bd_cost_function(t->ctx, &t->cost, t->spmd, t->spmd->functions[i],
                            &t->function_seconds[i]));
  return BD_OK;
}

static double callee_seconds(const timing *t, const char *callee, bd_role *out_role) {
  for (int i = 0; i < t->spmd->function_count; i++)
    if (strcmp(t->spmd->functions[i]->name, callee) == 0) {
      *out_role = t->spmd->functions[i]->role;
      return t->function_seconds[i];
    }
  return 0;
}

// Collectives of main count where they stand: before the first backward call of their stage or
// after.
static void add_passes(const timing *t, int stage, bd_stage_prediction *out) {
  const bd_function *main = t->spmd->main;
  bd_role role = BD_ROLE_FORWARD;
  for (int i = 0; i < main->op_count; i++) {
    const bd_op *op = &main->ops[i];
    double seconds = 0;
    if (op->stage != stage) continue;
    if (op->kind == BD_OP_CALL)
      seconds = callee_seconds(t, op->callee, &role);
    else if (bd_op_get_info(op->kind)->level == BD_COLLECTIVE)
      seconds = bd_cost_collective(&t->cost, main, op);
    *(role == BD_ROLE_FORWARD ? &out->forward_seconds : &out->backward_seconds) += seconds;
    if (op->kind == BD_OP_SEND || op->kind == BD_OP_RECV) out->send_seconds += seconds;
  }
}

// Gradients that are partial over mesh axes, reduced once a step, and the update's memory traffic.
static void add_sync(const timing *t, int stage, bd_stage_prediction *out) {
  const bd_function *main = t->spmd->main;
  for (int r = 1; r < main->result_count; r++) {
    const bd_value *gradient = &main->values[main->results[r]];
    if (gradient->producer < 0 || main->ops[gradient->producer].stage != stage) continue;
    int index = t->spmd->gradient_weight[r - 1];
    const bd_value *weight = &main->values[main->params[t->spmd->input_count + index]];
    out->sync_seconds += bd_sync_seconds(&t->cost, t->plan->optimizer, &weight->type,
                                         &weight->sharding, &gradient->sharding);
  }
}

bd_status bd_plan_predict(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                          bd_plan *plan) {
  bd_module *sharded, *spmd;
  if (bd_plan_is_full(plan)) return bd_plan_predict_full(ctx, train, cluster, plan);
  BD_TRY(bd_apply_plan(ctx, train, plan, &sharded));
  BD_TRY(bd_partition(ctx, sharded, &spmd));
  timing t = {.ctx = ctx, .spmd = spmd, .plan = plan};
  t.cost = (bd_cost_model){cluster, plan->mesh, plan->micro_batch};
  BD_TRY(time_functions(&t));
  plan->predicted = BD_NEW_ARRAY(ctx->arena, bd_stage_prediction, plan->stages);
  double sum = 0, slowest = 0, sync = 0;
  int micro_batches = bd_plan_micro_batches(plan);
  for (int s = 0; s < plan->stages; s++) {
    bd_stage_prediction *out = &plan->predicted[s];
    add_passes(&t, s, out);
    add_sync(&t, s, out);
    BD_TRY(bd_memory_of_stage(ctx, spmd, s, plan->schedule, micro_batches, plan->optimizer,
                              plan->zero_axes, &out->memory));
    double seconds = out->forward_seconds + out->backward_seconds;
    sum += seconds;
    if (seconds > slowest) slowest = seconds;
    if (out->sync_seconds > sync) sync = out->sync_seconds;
  }
  plan->step_seconds = sum + (micro_batches - 1) * slowest + sync;
  plan->gap = plan->bound_seconds > 0 ? plan->step_seconds / plan->bound_seconds - 1 : 0;
  return BD_OK;
}
