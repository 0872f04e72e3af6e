// A train module under a plan: function variants, stages on calls, forms on the values of main.
#include "ir/partition.h"
#include <assert.h>
#include <string.h>

typedef struct applying {
  bd_ctx *ctx;
  const bd_module *train;
  const bd_plan *plan;
  bd_module *sharded;
  bd_function **forward, **backward; // per strategy; NULL until used
} applying;

static bd_status use_strategy(applying *a, int index) {
  if (a->forward[index]) return BD_OK;
  BD_TRY(bd_apply_strategy(a->ctx, a->train, &a->plan->mesh, a->plan->micro_batch,
                           &a->plan->strategies[index], &a->forward[index], &a->backward[index]));
  bd_module_add_function(a->ctx, a->sharded, a->forward[index]);
  if (a->backward[index]) bd_module_add_function(a->ctx, a->sharded, a->backward[index]);
  return BD_OK;
}

static const bd_layer_range *find_range(const bd_plan *plan, int call) {
  for (int i = 0; i < plan->range_count; ++i) {
    const bd_layer_range *range = &plan->ranges[i];
    if (call >= range->first && call < range->first + range->count) return range;
  }
  return NULL;
}

static bd_status apply_call(applying *a, int op_index, int call) {
  bd_op *op = &a->sharded->main->ops[op_index];
  const bd_layer_range *range = find_range(a->plan, call);
  if (!range)
    return bd_fail(a->ctx, BD_INVALID, op->loc, "the plan has no stage for forward call %d", call);
  BD_TRY(use_strategy(a, range->strategy));
  op->callee = a->forward[range->strategy]->name;
  op->stage = range->stage;
  return BD_OK;
}

static bd_status apply_backward_call(applying *a, bd_op *op) {
  const bd_op *of = &a->sharded->main->ops[bd_op_int(op, "of", -1)];
  const bd_function *forward = bd_module_find(a->sharded, of->callee);
  assert(forward);
  if (!forward->peer)
    return bd_fail(a->ctx, BD_INVALID, op->loc, "%s has no backward function", of->callee);
  op->callee = forward->peer;
  op->stage = of->stage;
  return BD_OK;
}

static bd_status apply_calls(applying *a) {
  bd_function *main = a->sharded->main;
  int call = 0;
  for (int i = 0; i < main->op_count; ++i) {
    bd_op *op = &main->ops[i];
    if (op->kind != BD_OP_CALL) continue;
    if (bd_op_find_attr(op, "of"))
      BD_TRY(apply_backward_call(a, op));
    else
      BD_TRY(apply_call(a, i, call++));
  }
  return BD_OK;
}

// A sum of gradients runs where it is read; sums of sums are resolved from the last one on.
static void place_sums(bd_function *main) {
  for (int i = main->op_count - 1; i >= 0; --i) {
    bd_op *op = &main->ops[i];
    if (op->kind == BD_OP_CALL) continue;
    op->stage = main->op_count > 0 ? main->ops[main->op_count - 1].stage : 0;
    for (int j = main->op_count - 1; j > i; --j)
      for (int k = 0; k < main->ops[j].in_count; ++k)
        if (main->ops[j].in[k] == op->out[0]) op->stage = main->ops[j].stage;
    if (op->stage < 0) op->stage = 0;
  }
}

// An input is read from the data by sample: only its samples are split, other cuts come after.
static bd_sharding input_sharding(const bd_sharding *form) {
  bd_sharding sharding = *form;
  for (int axis = 0; axis < BD_MAX_AXES; ++axis)
    if (sharding.at[axis] > 0) sharding.at[axis] = BD_REPLICATED;
  return sharding;
}

static bd_status settle_operand(applying *a, const bd_op *op, int operand,
                                const bd_function *callee) {
  bd_function *main = a->sharded->main;
  bd_value *value = &main->values[op->in[operand]];
  const bd_sharding *form = &callee->values[callee->params[operand]].sharding;
  if (value->producer >= 0) return BD_OK;
  if (!callee->is_weight[operand]) {
    if (!value->has_sharding) value->sharding = input_sharding(form);
  } else if (!value->has_sharding) {
    value->sharding = *form;
  } else if (!bd_sharding_equal(&value->sharding, form)) {
    return bd_fail(a->ctx, BD_INVALID, op->loc,
                   "weight %s is used in two shardings: its form must agree between strategies",
                   value->name);
  }
  value->has_sharding = true;
  return BD_OK;
}

static bd_status settle_main(applying *a) {
  bd_function *main = a->sharded->main;
  for (int i = 0; i < main->op_count; ++i) {
    const bd_op *op = &main->ops[i];
    if (op->kind != BD_OP_CALL || bd_op_find_attr(op, "of")) continue;
    const bd_function *callee = bd_module_find(a->sharded, op->callee);
    for (int k = 0; k < op->in_count; ++k)
      BD_TRY(settle_operand(a, op, k, callee));
    for (int k = 0; k < op->out_count; ++k) {
      main->values[op->out[k]].sharding = callee->values[callee->results[k]].sharding;
      main->values[op->out[k]].has_sharding = true;
    }
  }
  return BD_OK;
}

bd_status bd_apply_plan(bd_ctx *ctx, const bd_module *train, const bd_plan *plan,
                        bd_module **out_sharded) {
  applying a = {.ctx = ctx, .train = train, .plan = plan};
  a.sharded = bd_module_clone(ctx, train);
  a.sharded->stage = BD_STAGE_SHARDED;
  a.sharded->function_count = 0;
  a.sharded->mesh = plan->mesh;
  a.sharded->stages = plan->stages;
  a.sharded->micro_batch = plan->micro_batch;
  a.sharded->cuda = strcmp(plan->target, "cuda") == 0;
  a.sharded->one_head = plan->one_head;
  a.forward = BD_NEW_ARRAY(ctx->arena, bd_function *, plan->strategy_count);
  a.backward = BD_NEW_ARRAY(ctx->arena, bd_function *, plan->strategy_count);
  BD_TRY(apply_calls(&a));
  place_sums(a.sharded->main);
  BD_TRY(settle_main(&a));
  *out_sharded = a.sharded;
  return BD_OK;
}
