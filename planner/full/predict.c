#include "planner/full/full.h"
#include "planner/full/stage.h"
#include "planner/full/weight.h"
#include "planner/step/step.h"
#include "planner/told/breakdown.h"
#include "planner/told/tenants.h"
#include <string.h>

typedef struct predicting {
  bd_ctx *ctx;
  const bd_module *train;
  const bd_cluster *cluster;
  const bd_plan *plan;
  int group_count, parts;
  bd_full_group *groups;
  bd_stage_prediction *once, *twice; // per part, of one and of two micro-batches held
  bd_plan_details *details;          // NULL, or what parts are made of: a stage of it each
} predicting;

// Runs a function on every rank alike: fits any mesh.
static bd_strategy replicate(bd_ctx *ctx, const bd_function *f) {
  bd_strategy out = {.name = bd_intern_f(ctx, "%s.alike", f->name), .function = f->name};
  out.op_count = f->op_count;
  out.split = bd_arena_array(ctx->arena, (size_t)f->op_count, sizeof *out.split);
  memset(out.split, '-', (size_t)f->op_count * sizeof *out.split);
  out.value_count = f->value_count;
  out.form = BD_NEW_ARRAY(ctx->arena, bd_sharding, f->value_count);
  out.saved = BD_NEW_ARRAY(ctx->arena, bool, f->value_count);
  for (int i = 0; i < f->value_count; i++)
    out.form[i] = bd_sharding_replicated();
  for (int i = 0; i < f->save_count; i++)
    out.saved[f->saves[i]] = true;
  for (int i = 0; i < f->param_count; i++)
    if (f->is_weight[i] || !bd_dtype_is_float(f->values[f->params[i]].type.dtype))
      out.saved[f->params[i]] = false;
  return out;
}

// Whether two stages can be read off one program.
static bool alike(const predicting *p, int a, int b) {
  const bd_plan *plan = p->plan;
  return bd_mesh_same(bd_plan_mesh(plan, a), bd_plan_mesh(plan, b)) &&
         bd_full_group_of(p->groups, p->group_count, bd_plan_first_device(plan, a)) ==
             bd_full_group_of(p->groups, p->group_count, bd_plan_first_device(plan, b));
}

// The program in which every part is a stage with the mesh of stage `like`; layers of stages that
// are not like it run on every rank alike.
static bd_plan unfold(const predicting *p, int like) {
  const bd_plan *plan = p->plan;
  bd_ctx *ctx = p->ctx;
  bd_plan out = *plan;
  int functions = plan->strategy_count;
  out.mesh = *bd_plan_mesh(plan, like);
  out.stage_mesh = NULL;
  out.stage_device = NULL;
  out.schedule = BD_SCHEDULE_GPIPE;
  out.stages = p->parts;
  out.chunks = 1;
  out.bound_seconds = 0;
  out.strategies = BD_NEW_ARRAY(ctx->arena, bd_strategy, 2 * functions);
  memcpy(out.strategies, plan->strategies, sizeof *out.strategies * (size_t)functions);
  out.ranges = BD_NEW_ARRAY(ctx->arena, bd_layer_range, plan->range_count);
  for (int i = 0; i < plan->range_count; i++) {
    bd_layer_range range = plan->ranges[i];
    const char *function = plan->strategies[range.strategy].function;
    if (!alike(p, range.stage, like)) {
      int at = functions;
      while (at < out.strategy_count && strcmp(out.strategies[at].function, function))
        at++;
      if (at == out.strategy_count)
        out.strategies[out.strategy_count++] = replicate(ctx, bd_module_find(p->train, function));
      range.strategy = at;
    }
    range.stage += range.chunk * plan->stages;
    range.chunk = 0;
    out.ranges[i] = range;
  }
  return out;
}

// The cluster on which a stage is priced: its own devices; the slowest link to a neighbour stands
// for those between nodes.
static bd_cluster price_on(const predicting *p, int stage) {
  const bd_plan *plan = p->plan;
  int own = bd_full_group_of(p->groups, p->group_count, bd_plan_first_device(plan, stage));
  int devices = bd_mesh_devices(bd_plan_mesh(plan, stage));
  bd_cluster out =
      bd_full_pair_cluster(p->cluster, &p->groups[own], &p->groups[own], devices, p->parts);
  bool alone = true;
  for (int other = 0; other < plan->stages; other++) {
    int distance = other > stage ? other - stage : stage - other;
    bool wraps = bd_plan_chunks(plan) > 1 && distance == plan->stages - 1;
    if (distance != 1 && !wraps) continue;
    int group = bd_full_group_of(p->groups, p->group_count, bd_plan_first_device(plan, other));
    if (group == own) continue;
    bd_cluster pair =
        bd_full_pair_cluster(p->cluster, &p->groups[own], &p->groups[group], devices, p->parts);
    if (alone || pair.inter.bytes_per_second < out.inter.bytes_per_second) out = pair;
    alone = false;
  }
  return out;
}

static bd_status add_details(predicting *p, int like, const bd_cluster *cluster, bd_plan *program) {
  BD_TRY(bd_plan_break_down(p->ctx, p->train, cluster, program));
  for (int part = 0; part < p->parts; part++)
    if (alike(p, part % p->plan->stages, like))
      p->details->stages[part] = program->details->stages[part];
  p->details->model_flops = program->details->model_flops * bd_plan_micro_batches(p->plan);
  memcpy(p->details->link, program->details->link, sizeof p->details->link);
  p->details->stage_link = program->details->stage_link;
  p->details->weights = program->details->weights;
  p->details->gradient_parts = program->details->gradient_parts;
  p->details->gathered = program->details->gathered;
  p->details->products = program->details->products;
  p->details->marked_products = program->details->marked_products;
  p->details->float8_products = program->details->float8_products;
  return BD_OK;
}

static bd_status read_class(predicting *p, int like) {
  bd_plan program = unfold(p, like);
  bd_cluster cluster = price_on(p, like);
  for (int held = 1; held <= 2; held++) {
    program.global_batch = held * program.micro_batch;
    BD_TRY(bd_plan_predict(p->ctx, p->train, &cluster, &program));
    if (p->details && held == 1) BD_TRY(add_details(p, like, &cluster, &program));
    for (int part = 0; part < p->parts; part++)
      if (alike(p, part % p->plan->stages, like))
        (held == 1 ? p->once : p->twice)[part] = program.predicted[part];
  }
  return BD_OK;
}

static bool is_shared(int segment) {
  return segment == BD_SEGMENT_WORKSPACE || segment == BD_SEGMENT_LIBRARY;
}

// The part of a stage whose tape and boundary are the largest, and the one with most workspace.
static void find_largest(const predicting *p, int stage, int *out_slot, int *out_workspace) {
  int64_t largest = -1;
  *out_slot = *out_workspace = stage;
  for (int part = stage; part < p->parts; part += p->plan->stages) {
    const bd_memory *once = &p->once[part].memory, *most = &p->once[*out_workspace].memory;
    int64_t sum = p->twice[part].memory.total_bytes - once->total_bytes;
    if (sum > largest) *out_slot = part;
    if (sum > largest) largest = sum;
    if (once->bytes[BD_SEGMENT_WORKSPACE] > most->bytes[BD_SEGMENT_WORKSPACE])
      *out_workspace = part;
  }
}

// What the parts of a stage hold together. What a delayed weight pass waits for is taken to be as
// large as the tape.
static void add_memory(const predicting *p, int stage, bd_memory *out) {
  const bd_plan *plan = p->plan;
  int chunks = bd_plan_chunks(plan);
  bd_schedule_hold hold =
      bd_schedule_held(plan->schedule, stage, plan->stages, chunks, bd_plan_micro_batches(plan));
  int64_t slot[BD_SEGMENT_COUNT] = {0};
  int largest, workspace;
  find_largest(p, stage, &largest, &workspace);
  for (int part = stage; part < p->parts; part += plan->stages) {
    for (int s = 1; s < BD_SEGMENT_COUNT; s++) {
      int64_t once = p->once[part].memory.bytes[s], twice = p->twice[part].memory.bytes[s];
      int64_t own = twice - once, fixed = once - own;
      if (part == largest) slot[s] = own;
      if (!is_shared(s)) out->bytes[s] += fixed;
      if (is_shared(s) && fixed > out->bytes[s]) out->bytes[s] = fixed;
    }
  }
  out->slots = hold.tapes;
  out->slot_bytes[BD_SEGMENT_TAPE] = slot[BD_SEGMENT_TAPE];
  out->slot_bytes[BD_SEGMENT_BOUNDARY] = slot[BD_SEGMENT_BOUNDARY];
  slot[BD_SEGMENT_TAPE] *= hold.tapes + hold.weight_inputs;
  slot[BD_SEGMENT_BOUNDARY] *= hold.tapes;
  for (int s = 1; s < BD_SEGMENT_COUNT; s++) {
    out->bytes[s] += slot[s];
    out->total_bytes += out->bytes[s];
  }
}

static bd_status add_seconds(const predicting *p, int stage, bd_stage_prediction *out) {
  const bd_plan *plan = p->plan;
  bd_pass_flops flops = {0};
  for (int part = stage; part < p->parts; part += plan->stages) {
    const bd_stage_prediction *from = &p->once[part];
    out->forward_seconds += from->forward_seconds;
    out->backward_seconds += from->backward_seconds;
    out->send_seconds += from->send_seconds;
    out->sync_seconds += from->sync_seconds;
    out->apply_seconds += from->apply_seconds;
  }
  if (plan->schedule != BD_SCHEDULE_ZERO_BUBBLE) return BD_OK;
  for (int i = 0; i < plan->range_count; i++) {
    const bd_layer_range *range = &plan->ranges[i];
    bd_pass_flops one = {0};
    if (range->stage != stage) continue;
    BD_TRY(bd_add_pass_flops(p->ctx, p->train,
                             bd_module_find(p->train, plan->strategies[range->strategy].function),
                             plan->micro_batch, &one));
    flops.forward += range->count * one.forward;
    flops.backward += range->count * one.backward;
    flops.weight += range->count * one.weight;
  }
  out->weight_seconds = bd_weight_pass_seconds(&flops, out->forward_seconds, out->backward_seconds);
  return BD_OK;
}

static bd_status check_places(bd_ctx *ctx, const predicting *p) {
  const bd_plan *plan = p->plan;
  if (!bd_schedule_allows(plan->schedule, plan->stages, bd_plan_chunks(plan),
                          bd_plan_micro_batches(plan)))
    return bd_fail(ctx, BD_INVALID, BD_NOWHERE,
                   "plan for '%s': schedule %s does not go with %d stages of %d chunks and %d "
                   "micro-batches",
                   plan->model, bd_schedule_name(plan->schedule), plan->stages,
                   bd_plan_chunks(plan), bd_plan_micro_batches(plan));
  for (int s = 0; s < plan->stages; s++) {
    int first = bd_plan_first_device(plan, s);
    int last = first + bd_mesh_devices(bd_plan_mesh(plan, s)) - 1;
    int group = bd_full_group_of(p->groups, p->group_count, first);
    if (group < 0 || group != bd_full_group_of(p->groups, p->group_count, last))
      return bd_fail(ctx, BD_INVALID, BD_NOWHERE,
                     "plan for '%s': stage %d wants devices %d to %d, which are not of one group "
                     "of the cluster",
                     plan->model, s, first, last);
  }
  return BD_OK;
}

// Whether no stage before it is like it.
static bool is_first(const predicting *p, int stage) {
  for (int before = 0; before < stage; before++)
    if (alike(p, before, stage)) return false;
  return true;
}

static bd_status read_classes(predicting *p) {
  bd_ctx *ctx = p->ctx;
  const bd_plan *plan = p->plan;
  p->parts = plan->stages * bd_plan_chunks(plan);
  p->once = BD_NEW_ARRAY(ctx->arena, bd_stage_prediction, p->parts);
  p->twice = BD_NEW_ARRAY(ctx->arena, bd_stage_prediction, p->parts);
  bd_full_groups(ctx, p->cluster, 0, &p->groups, &p->group_count);
  BD_TRY(check_places(ctx, p));
  for (int s = 0; s < plan->stages; s++)
    if (is_first(p, s)) BD_TRY(read_class(p, s));
  return BD_OK;
}

bd_status bd_plan_predict_full(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                               bd_plan *plan) {
  predicting p = {.ctx = ctx, .train = train, .cluster = cluster, .plan = plan};
  BD_TRY(read_classes(&p));
  bd_stage_prediction *predicted = BD_NEW_ARRAY(ctx->arena, bd_stage_prediction, plan->stages);
  for (int s = 0; s < plan->stages; s++) {
    BD_TRY(add_seconds(&p, s, &predicted[s]));
    add_memory(&p, s, &predicted[s].memory);
  }
  plan->predicted = predicted;
  BD_TRY(bd_step_plan_seconds(ctx, plan, &plan->step_seconds));
  plan->gap = plan->bound_seconds > 0 ? plan->step_seconds / plan->bound_seconds - 1 : 0;
  return BD_OK;
}

static void add_part(const bd_stage_details *from, bd_stage_details *out) {
  out->compute_seconds += from->compute_seconds;
  out->recompute_seconds += from->recompute_seconds;
  out->aside_seconds += from->aside_seconds;
  out->update_seconds += from->update_seconds;
  out->flops += from->flops;
  out->recompute_flops += from->recompute_flops;
  out->recompute_bytes += from->recompute_bytes;
  for (int axis = 0; axis < BD_MAX_AXES; axis++) {
    out->sync_seconds[axis] += from->sync_seconds[axis];
    for (int kind = 0; kind < BD_TRAFFIC_COUNT; kind++)
      out->traffic_seconds[kind][axis] += from->traffic_seconds[kind][axis];
  }
}

// Parts know what one micro-batch keeps; tapes in flight are as large as the largest.
static void count_host(const predicting *p, int stage) {
  const bd_plan *plan = p->plan;
  bd_schedule_hold hold = bd_schedule_held(plan->schedule, stage, plan->stages,
                                           bd_plan_chunks(plan), bd_plan_micro_batches(plan));
  int64_t largest = 0;
  for (int part = stage; part < p->parts; part += plan->stages)
    if (p->details->stages[part].host_bytes > largest)
      largest = p->details->stages[part].host_bytes;
  p->details->stages[stage].host_bytes = largest * (hold.tapes + hold.weight_inputs);
}

// What the parts of a stage, of the program `spmd` that `program` describes, hold at its peak.
static bd_status list_live(predicting *p, const bd_module *spmd, const bd_plan *program,
                           int stage) {
  const bd_plan *plan = p->plan;
  bd_schedule_hold hold = bd_schedule_held(plan->schedule, stage, plan->stages,
                                           bd_plan_chunks(plan), bd_plan_micro_batches(plan));
  bd_tenants list = {0};
  int slot, workspace;
  find_largest(p, stage, &slot, &workspace);
  for (int part = stage; part < p->parts; part += plan->stages)
    BD_TRY(bd_tenants_add(p->ctx, p->train, spmd, program, part, part == slot ? hold.tapes : 0,
                          part == workspace, &list));
  int64_t tape = p->twice[slot].memory.bytes[BD_SEGMENT_TAPE];
  tape -= p->once[slot].memory.bytes[BD_SEGMENT_TAPE];
  bd_tenants_add_weight_inputs(p->ctx, tape, hold.weight_inputs, &list);
  bd_tenants_sort(&list);
  p->details->stages[stage].live = list.items;
  p->details->stages[stage].live_count = list.count;
  return BD_OK;
}

static bd_status find_live(predicting *p, int like) {
  bd_plan program = unfold(p, like);
  bd_module *sharded, *spmd;
  program.global_batch = program.micro_batch;
  BD_TRY(bd_apply_plan(p->ctx, p->train, &program, &sharded));
  BD_TRY(bd_partition(p->ctx, sharded, &spmd));
  for (int stage = like; stage < p->plan->stages; stage++)
    if (alike(p, stage, like)) BD_TRY(list_live(p, spmd, &program, stage));
  return BD_OK;
}

// The mean rate of the plan's devices.
static double mean_rate(const bd_cluster *cluster, const bd_plan *plan) {
  double sum = 0;
  for (int s = 0; s < plan->stages; s++) {
    int devices = bd_mesh_devices(bd_plan_mesh(plan, s));
    bd_device_kind kind = bd_cluster_device_kind(cluster, bd_plan_first_device(plan, s));
    sum += devices * bd_flops_of(&kind.flops, plan->precision);
  }
  return sum / bd_plan_ranks(plan);
}

bd_status bd_plan_break_down_full(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                                  bd_plan *plan) {
  predicting p = {.ctx = ctx, .train = train, .cluster = cluster, .plan = plan};
  bd_plan_details *out = BD_NEW(ctx->arena, bd_plan_details);
  p.details = out;
  out->stages = BD_NEW_ARRAY(ctx->arena, bd_stage_details, plan->stages * bd_plan_chunks(plan));
  BD_TRY(read_classes(&p));
  for (int stage = 0; stage < plan->stages; stage++)
    count_host(&p, stage);
  for (int part = plan->stages; part < p.parts; part++)
    add_part(&out->stages[part], &out->stages[part % plan->stages]);
  for (int stage = 0; stage < plan->stages; stage++)
    if (is_first(&p, stage)) BD_TRY(find_live(&p, stage));
  out->flops_per_second = mean_rate(cluster, plan);
  for (int s = 1; s < plan->stages; s++)
    if (plan->predicted[s].memory.total_bytes >
        plan->predicted[out->fullest_stage].memory.total_bytes)
      out->fullest_stage = s;
  plan->details = out;
  return BD_OK;
}
