#include "planner/told/breakdown.h"
#include "planner/cost/cost.h"
#include "planner/full/full.h"
#include "planner/full/stage.h"
#include "planner/layer/aside.h"
#include "planner/step/end.h"
#include "planner/told/tenants.h"
#include <string.h>

// What one execution of a function takes.
typedef struct parts {
  double compute_seconds, recompute_seconds, flops, recompute_flops;
  double traffic_seconds[BD_TRAFFIC_COUNT][BD_MAX_AXES];
  int64_t recompute_bytes; // of one micro-batch: results that backward needs and the tape lacks
} parts;

typedef struct splitting {
  bd_ctx *ctx;
  const bd_module *train, *spmd;
  const bd_plan *plan;
  bd_cost_model cost;
  parts *functions; // per function of the spmd module
  bd_plan_details *out;
} splitting;

// Sorts the seconds of an op between ranks; false when it is work of the rank's own.
static bool is_traffic(const bd_op *op, bd_traffic *out_kind, int *out_axis) {
  static const struct {
    bd_op_kind op;
    bd_traffic traffic;
  } kinds[] = {{BD_OP_ALL_REDUCE, BD_TRAFFIC_ALL_REDUCE},
               {BD_OP_ALL_GATHER, BD_TRAFFIC_ALL_GATHER},
               {BD_OP_REDUCE_SCATTER, BD_TRAFFIC_REDUCE_SCATTER},
               {BD_OP_ALL_TO_ALL, BD_TRAFFIC_ALL_TO_ALL},
               {BD_OP_MIRROR, BD_TRAFFIC_MIRROR},
               {BD_OP_SEND, BD_TRAFFIC_SEND},
               {BD_OP_RECV, BD_TRAFFIC_RECEIVE}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (kinds[i].op == op->kind) {
      *out_kind = kinds[i].traffic;
      *out_axis = kinds[i].traffic < BD_TRAFFIC_SEND ? (int)bd_op_int(op, "axis", 0) : 0;
      return true;
    }
  return false;
}

static bd_status add_flops(const splitting *s, const bd_function *f, const bd_op *op, parts *out) {
  bd_index_map map;
  bd_type types[BD_MAX_RESULTS];
  if (bd_op_get_info(op->kind)->level == BD_COLLECTIVE) return BD_OK;
  BD_TRY(bd_op_infer(s->ctx, f, op, &map, types));
  double flops = bd_op_flops(f, op, &map, &s->cost.mesh, op->split, s->cost.micro_batch);
  out->flops += flops;
  if (op->recomputed) out->recompute_flops += flops;
  return BD_OK;
}

static bd_status split_function(const splitting *s, const bd_function *f, parts *out) {
  bd_fusion fusion;
  bd_fuse(s->ctx, s->spmd, f, &fusion);
  for (int step = 0; step < fusion.step_count; step++) {
    const bd_op *first = &f->ops[fusion.first_op[step]];
    double seconds;
    bd_traffic kind;
    int axis, again = 0;
    BD_TRY(bd_cost_step(s->ctx, &s->cost, s->spmd, f, &fusion, step, &seconds));
    for (int i = 0; i < fusion.step_ops[step]; i++) {
      BD_TRY(add_flops(s, f, first + i, out));
      again += first[i].recomputed;
    }
    if (is_traffic(first, &kind, &axis))
      out->traffic_seconds[kind][axis] += seconds;
    else
      out->compute_seconds += seconds;
    if (!is_traffic(first, &kind, &axis))
      out->recompute_seconds += seconds * again / fusion.step_ops[step];
  }
  return BD_OK;
}

// What the tape would hold more of one micro-batch if all that backward reads were saved.
static void count_unsaved(const splitting *s, const bd_strategy *strategy, parts *out) {
  const bd_function *f = bd_module_find(s->train, strategy->function);
  for (int i = 0; i < f->save_count; i++) {
    bd_id v = f->saves[i];
    if (f->values[v].producer < 0 || strategy->saved[v]) continue;
    bd_value value = f->values[v];
    value.sharding = strategy->form[v];
    out->recompute_bytes += bd_memory_value_bytes(s->spmd, &value);
  }
}

static bd_status split_functions(splitting *s) {
  s->functions = BD_NEW_ARRAY(s->ctx->arena, parts, s->spmd->function_count);
  for (int i = 0; i < s->spmd->function_count; i++) {
    BD_TRY(split_function(s, s->spmd->functions[i], &s->functions[i]));
    for (int k = 0; k < s->plan->strategy_count; k++)
      if (strcmp(s->plan->strategies[k].name, s->spmd->functions[i]->name) == 0)
        count_unsaved(s, &s->plan->strategies[k], &s->functions[i]);
  }
  return BD_OK;
}

static void add_call(const splitting *s, const bd_op *call, int in_flight, bd_stage_details *out) {
  int index = 0;
  while (strcmp(s->spmd->functions[index]->name, call->callee))
    index++;
  const parts *p = &s->functions[index];
  out->compute_seconds += p->compute_seconds;
  out->recompute_seconds += p->recompute_seconds;
  out->flops += p->flops;
  out->recompute_flops += p->recompute_flops;
  out->recompute_bytes += p->recompute_bytes * in_flight;
  for (int kind = 0; kind < BD_TRAFFIC_COUNT; kind++)
    for (int axis = 0; axis < BD_MAX_AXES; axis++)
      out->traffic_seconds[kind][axis] += p->traffic_seconds[kind][axis];
}

static bd_status split_passes(const splitting *s, int stage, bd_stage_details *out) {
  const bd_function *main = s->spmd->main;
  int in_flight = bd_schedule_in_flight(s->plan->schedule, stage, s->plan->stages,
                                        bd_plan_micro_batches(s->plan));
  for (int i = 0; i < main->op_count; i++) {
    const bd_op *op = &main->ops[i];
    bd_traffic kind;
    int axis;
    double seconds;
    if (op->stage != stage) continue;
    if (op->kind == BD_OP_CALL) {
      add_call(s, op, in_flight, out);
      continue;
    }
    BD_TRY(bd_cost_main_op(s->ctx, &s->cost, main, op, &seconds));
    *(is_traffic(op, &kind, &axis) ? &out->traffic_seconds[kind][axis] : &out->compute_seconds) +=
        seconds;
  }
  return BD_OK;
}

// As the prediction counts it: collectives by axis, and all the rest.
static bd_status split_sync(const splitting *s, int stage, bd_stage_details *out) {
  const bd_plan *plan = s->plan;
  const bd_tie *ties;
  int tie_count;
  bd_layout layout;
  BD_TRY(bd_layout_of_stage(s->ctx, s->spmd, stage, plan->schedule, bd_plan_micro_batches(plan),
                            plan->optimizer, plan->zero_axes, &layout));
  bd_step_end end;
  BD_TRY(bd_step_end_of_stage(s->ctx, &s->cost, s->spmd, &layout, plan->optimizer, plan->zero_axes,
                              &end));
  bd_step_end_ties(s->ctx, &s->cost, s->spmd, &ties, &tie_count);
  out->update_seconds =
      end.reduce + end.update + bd_step_end_tie_seconds(&s->cost, stage, tie_count, ties);
  for (int axis = 0; axis < s->cost.mesh.axes; axis++) {
    out->sync_seconds[axis] = end.collective[axis];
    out->update_seconds -= end.collective[axis];
  }
  return BD_OK;
}

// Library calls of the model, each once.
bd_status bd_plan_model_flops(bd_ctx *ctx, const bd_module *train, const bd_plan *plan,
                              double *out_flops) {
  const bd_function *main = train->main;
  static const bd_mesh one = {1, {1}};
  static const int8_t unsplit[BD_MAX_AXES] = {-1, -1, -1, -1};
  double sum = 0, *flops = BD_NEW_ARRAY(ctx->arena, double, train->function_count);
  for (int i = 0; i < train->function_count; i++) {
    const bd_function *f = train->functions[i];
    for (int k = 0; k < f->op_count; k++) {
      bd_index_map map;
      bd_type types[BD_MAX_RESULTS];
      if (!(bd_op_get_info(f->ops[k].kind)->traits & BD_LIBRARY)) continue;
      BD_TRY(bd_op_infer(ctx, f, &f->ops[k], &map, types));
      flops[i] += bd_op_flops(f, &f->ops[k], &map, &one, unsplit, plan->micro_batch);
    }
  }
  for (int i = 0; i < main->op_count; i++)
    for (int f = 0; main->ops[i].kind == BD_OP_CALL && f < train->function_count; f++)
      if (strcmp(train->functions[f]->name, main->ops[i].callee) == 0) sum += flops[f];
  *out_flops = sum * bd_plan_micro_batches(plan);
  return BD_OK;
}

// Products of the calls of a module's main; `marked`: for 8 bits.
static int count_products(const bd_module *module, bool marked) {
  const bd_function *main = module->main;
  int count = 0;
  for (int i = 0; i < main->op_count; i++) {
    const bd_function *f =
        main->ops[i].kind == BD_OP_CALL ? bd_module_find(module, main->ops[i].callee) : NULL;
    for (int k = 0; f && k < f->op_count; k++)
      count += bd_op_is_product(f->ops[k].kind) && !f->ops[k].recomputed &&
               (!marked || bd_op_find_attr(&f->ops[k], "fp8"));
  }
  return count;
}

// How the weights of a forward function lie: the gradient of one is that of the peer's results.
static void count_weights(const splitting *s, const bd_function *f) {
  const bd_function *backward = f->peer ? bd_module_find(s->spmd, f->peer) : NULL;
  for (int p = 0; p < f->param_count; p++) {
    if (!f->is_weight[p]) continue;
    bool gathered = false;
    for (int i = 0; i < f->op_count; i++)
      gathered =
          gathered || (f->ops[i].kind == BD_OP_ALL_GATHER && f->ops[i].in[0] == f->params[p]);
    s->out->weights++;
    s->out->gathered += gathered;
    for (int r = 0; backward && r < backward->result_count; r++)
      for (int axis = 0; backward->gradient_of[r] == p && axis < s->cost.mesh.axes; axis++)
        s->out->gradient_parts += backward->values[backward->results[r]].sharding.at[axis] >= 0 &&
                                  f->values[f->params[p]].sharding.at[axis] == BD_REPLICATED;
  }
}

static bool stays_inside(const bd_cost_model *cost, bd_link link) {
  return link.latency_seconds == cost->cluster->intra.latency_seconds &&
         link.bytes_per_second == cost->cluster->intra.bytes_per_second;
}

static void note_links(splitting *s) {
  for (int axis = 0; axis < s->cost.mesh.axes; axis++) {
    bd_link link = bd_cost_link(&s->cost, axis);
    s->out->link[axis] =
        (bd_axis_link){link.latency_seconds, link.bytes_per_second, stays_inside(&s->cost, link)};
  }
  bd_link link = bd_cost_stage_link(&s->cost, 0, s->plan->stages > 1);
  s->out->stage_link =
      (bd_axis_link){link.latency_seconds, link.bytes_per_second, stays_inside(&s->cost, link)};
}

// What calls of a stage compress or keep in the host's memory.
static void add_aside(const splitting *s, int stage, bd_stage_details *out) {
  int in_flight = bd_schedule_in_flight(s->plan->schedule, stage, s->plan->stages,
                                        bd_plan_micro_batches(s->plan));
  for (int i = 0; i < s->plan->range_count; i++) {
    const bd_layer_range *range = &s->plan->ranges[i];
    const bd_strategy *strategy = &s->plan->strategies[range->strategy];
    if (range->stage != stage || !strategy->kept) continue;
    bd_aside aside = bd_aside_of(&s->cost, bd_module_find(s->train, strategy->function), strategy);
    out->aside_seconds += range->count * (aside.forward_seconds + aside.backward_seconds);
    out->host_bytes += range->count * in_flight * aside.host_bytes;
  }
}

static bd_status find_live(splitting *s) {
  bd_plan_details *out = s->out;
  for (int stage = 0; stage < s->plan->stages; stage++) {
    bd_stage_details *of = &out->stages[stage];
    if (s->plan->predicted[stage].memory.total_bytes >
        s->plan->predicted[out->fullest_stage].memory.total_bytes)
      out->fullest_stage = stage;
    BD_TRY(bd_tenants_find(s->ctx, s->train, s->spmd, s->plan, stage, &of->live, &of->live_count));
  }
  return BD_OK;
}

bd_status bd_plan_break_down(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                             bd_plan *plan) {
  bd_module *sharded, *spmd;
  bd_full_range range;
  if (bd_full_range_of(ctx, cluster, plan, &range)) {
    bd_plan alone = *plan;
    alone.stage_device = NULL;
    BD_TRY(bd_plan_break_down(ctx, train, &range.cluster, &alone));
    plan->details = alone.details;
    return BD_OK;
  }
  if (bd_plan_is_full(plan)) return bd_plan_break_down_full(ctx, train, cluster, plan);
  BD_TRY(bd_apply_plan(ctx, train, plan, &sharded));
  BD_TRY(bd_partition(ctx, sharded, &spmd));
  splitting s = {.ctx = ctx, .train = train, .spmd = spmd, .plan = plan};
  s.cost = (bd_cost_model){cluster, plan->mesh, plan->micro_batch};
  s.out = BD_NEW(ctx->arena, bd_plan_details);
  s.out->stages = BD_NEW_ARRAY(ctx->arena, bd_stage_details, plan->stages);
  s.out->flops_per_second = bd_flops_of(&cluster->flops, plan->precision);
  BD_TRY(split_functions(&s));
  for (int stage = 0; stage < plan->stages; stage++) {
    BD_TRY(split_passes(&s, stage, &s.out->stages[stage]));
    BD_TRY(split_sync(&s, stage, &s.out->stages[stage]));
    add_aside(&s, stage, &s.out->stages[stage]);
  }
  for (int i = 0; i < spmd->main->op_count; i++) {
    const bd_op *op = &spmd->main->ops[i];
    const bd_function *callee = op->kind == BD_OP_CALL ? bd_module_find(spmd, op->callee) : NULL;
    if (callee && callee->role == BD_ROLE_FORWARD) count_weights(&s, callee);
  }
  BD_TRY(bd_plan_model_flops(ctx, train, plan, &s.out->model_flops));
  s.out->products = count_products(train, false);
  s.out->marked_products = count_products(train, true);
  s.out->float8_products = count_products(sharded, true);
  note_links(&s);
  BD_TRY(find_live(&s));
  plan->details = s.out;
  return BD_OK;
}
