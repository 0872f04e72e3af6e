// A plan's program as the replay sees it.
#include "ir/fuse.h"
#include "ir/layout.h"
#include "ir/partition.h"
#include "planner/cost/cost.h"
#include "planner/full/stage.h"
#include "planner/simulate/source.h"
#include "planner/simulate/sync.h"
#include "planner/simulate/work.h"
#include <string.h>

typedef struct lowering {
  bd_ctx *ctx;
  const bd_plan *plan;
  const bd_module *spmd;
  bd_cost_model cost;
  double *compute, *collective; // per function: seconds of its ops, and of its collectives
  int *message_of;              // per op of main that sends or receives
  bd_sim_message *messages;
  int message_count;
} lowering;

static bool is_collective(bd_op_kind kind) {
  return bd_op_get_info(kind)->level == BD_COLLECTIVE;
}

static bool is_transfer(const bd_op *op) {
  return op->kind == BD_OP_SEND || op->kind == BD_OP_RECV;
}

static bd_status time_function(lowering *l, int index) {
  const bd_function *function = l->spmd->functions[index];
  bd_fusion fusion;
  bd_fuse(l->ctx, l->spmd, function, &fusion);
  for (int step = 0; step < fusion.step_count; step++) {
    double seconds;
    BD_TRY(bd_cost_step(l->ctx, &l->cost, l->spmd, function, &fusion, step, &seconds));
    bool collective = is_collective(function->ops[fusion.first_op[step]].kind);
    *(collective ? &l->collective[index] : &l->compute[index]) += seconds;
  }
  return BD_OK;
}

static bd_status time_functions(lowering *l) {
  l->compute = BD_NEW_ARRAY(l->ctx->arena, double, l->spmd->function_count);
  l->collective = BD_NEW_ARRAY(l->ctx->arena, double, l->spmd->function_count);
  for (int f = 0; f < l->spmd->function_count; f++)
    BD_TRY(time_function(l, f));
  return BD_OK;
}

static int function_index(const bd_module *module, const char *name) {
  int f = 0;
  while (strcmp(module->functions[f]->name, name) != 0)
    f++;
  return f;
}

static double local_bytes(const bd_module *spmd, const bd_value *value) {
  return (double)bd_local_elements(&spmd->mesh, &value->sharding, &value->type, spmd->micro_batch) *
         (double)bd_dtype_bytes(value->type.dtype);
}

// A send and its receive share a tag. There is room for `more` messages.
static void find_messages(lowering *l, int more) {
  const bd_function *main = l->spmd->main;
  int sends = 0;
  for (int i = 0; i < main->op_count; i++)
    sends += main->ops[i].kind == BD_OP_SEND;
  l->messages = BD_NEW_ARRAY(l->ctx->arena, bd_sim_message, sends + more);
  l->message_of = BD_NEW_ARRAY(l->ctx->arena, int, main->op_count);
  for (int i = 0; i < main->op_count; i++) {
    const bd_op *op = &main->ops[i];
    if (op->kind != BD_OP_SEND) continue;
    l->message_of[i] = l->message_count;
    for (int j = i + 1; j < main->op_count; j++)
      if (main->ops[j].kind == BD_OP_RECV &&
          bd_op_int(&main->ops[j], "tag", -1) == bd_op_int(op, "tag", -2))
        l->message_of[j] = l->message_count;
    l->messages[l->message_count++] =
        bd_sim_message_between(&l->cost, op->stage, (int)bd_op_int(op, "to", -1),
                               local_bytes(l->spmd, &main->values[op->in[0]]));
  }
}

static bd_status add_op(const lowering *l, int index, bd_sim_work *work) {
  const bd_function *main = l->spmd->main;
  const bd_op *op = &main->ops[index];
  double seconds = 0;
  if (is_transfer(op)) {
    const bd_sim_message *message = &l->messages[l->message_of[index]];
    if (op->kind == BD_OP_SEND)
      bd_sim_add_send(l->ctx, work, l->message_of[index], bd_cost_copy(&l->cost, message->bytes));
    else
      bd_sim_add_receive(l->ctx, work, l->message_of[index]);
  } else if (op->kind == BD_OP_CALL) {
    int f = function_index(l->spmd, op->callee);
    bd_sim_add_compute(l->ctx, work, l->compute[f], l->collective[f]);
  } else {
    BD_TRY(bd_cost_main_op(l->ctx, &l->cost, main, op, &seconds));
    bool collective = is_collective(op->kind);
    bd_sim_add_compute(l->ctx, work, collective ? 0 : seconds, collective ? seconds : 0);
  }
  return BD_OK;
}

static bd_status lower_stage(lowering *l, int s, bd_sim_stage *out) {
  const bd_plan *plan = l->plan;
  bd_layout layout;
  BD_TRY(bd_layout_of_stage(l->ctx, l->spmd, s, plan->schedule, bd_plan_micro_batches(plan),
                            plan->optimizer, plan->zero_axes, &layout));
  bd_sim_work *works = BD_NEW_ARRAY(l->ctx->arena, bd_sim_work, BD_SIM_PASS_KINDS);
  for (int kind = 0; kind < BD_SIM_PASS_KINDS; kind++)
    out->pass[kind] = &works[kind];
  for (int i = 0; i < l->spmd->main->op_count; i++)
    if (l->spmd->main->ops[i].stage == s)
      BD_TRY(add_op(l, i, &works[i < layout.forward_ops ? BD_PASS_FORWARD : BD_PASS_BACKWARD]));
  out->ranks = bd_mesh_devices(&plan->mesh);
  BD_TRY(bd_sim_lower_sync(l->ctx, &l->cost, l->spmd, plan, &layout, out));
  for (int segment = 0; segment < BD_SEGMENT_COUNT; segment++) {
    out->slot_bytes[segment] = layout.memory.slot_bytes[segment];
    out->fixed_bytes[segment] =
        layout.memory.bytes[segment] - layout.in_flight * out->slot_bytes[segment];
  }
  return BD_OK;
}

bd_status bd_sim_lower(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                       const bd_plan *plan, bd_sim_problem *out_problem) {
  bd_module *sharded, *spmd;
  bd_full_range range;
  if (bd_full_range_of(ctx, cluster, plan, &range)) cluster = &range.cluster;
  BD_TRY(bd_apply_plan(ctx, train, plan, &sharded));
  BD_TRY(bd_partition(ctx, sharded, &spmd));
  lowering l = {.ctx = ctx, .plan = plan, .spmd = spmd};
  l.cost = (bd_cost_model){cluster, plan->mesh, plan->micro_batch};
  BD_TRY(time_functions(&l));
  const bd_tie *ties;
  int tie_count;
  bd_step_end_ties(ctx, &l.cost, spmd, &ties, &tie_count);
  find_messages(&l, 2 * tie_count);
  bd_sim_stage *stages = BD_NEW_ARRAY(ctx->arena, bd_sim_stage, plan->stages);
  for (int s = 0; s < plan->stages; s++)
    BD_TRY(lower_stage(&l, s, &stages[s]));
  bd_sim_lower_ties(ctx, &l.cost, tie_count, ties, stages, l.messages, &l.message_count);
  *out_problem = (bd_sim_problem){.schedule = plan->schedule,
                                  .stages = plan->stages,
                                  .chunks = 1,
                                  .micro_batches = bd_plan_micro_batches(plan),
                                  .blocking = true,
                                  .message_count = l.message_count,
                                  .messages = l.messages,
                                  .stage = stages};
  return BD_OK;
}
