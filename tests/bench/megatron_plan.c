#include "planner/cost/cost.h"
#include "planner/step/step.h"
#include "tests/bench/megatron.h"
#include <string.h>

// Loops that the tensor axis cuts, by the op's result; all others are the same on every tensor
// rank (Shoeybi et al. 2019, section 3; the vocabulary as in section 3 too).
static const struct {
  const char *result;
  char letter;
} tensor_cuts[] = {
    {"rows", 'v'},
    {"q_product", 'h'},
    {"q", 'C'},
    {"k_product", 'h'},
    {"k", 'C'},
    {"v_product", 'h'},
    {"v", 'C'},
    {"attended", 'k'},
    {"c_proj_product", 'h'},
    {"c_fc_product", 'f'},
    {"c_fc", 'C'},
    {"activated", 'C'},
    {"mlp_product", 'f'},
    {"logits", 'v'},
    {"lse", 'v'},
    {"loss", 'v'},
};

static char tensor_letter(const char *result) {
  for (size_t i = 0; i < sizeof tensor_cuts / sizeof *tensor_cuts; i++)
    if (strcmp(tensor_cuts[i].result, result) == 0) return tensor_cuts[i].letter;
  return '-';
}

// The loop over samples: of the first operand or result that has one.
static int sample_loop(const bd_index_map *map) {
  for (int loop = 0; loop < map->loops; loop++)
    if (map->loop[loop].extent == BD_DIM_BATCH) return loop;
  return -1;
}

static bd_status cut_op(bd_ctx *ctx, const bd_function *f, int index, const bd_mesh *mesh,
                        bd_strategy *out) {
  const bd_op *op = &f->ops[index];
  bd_index_map map;
  bd_type types[BD_MAX_RESULTS];
  int8_t split[BD_MAX_AXES] = {-1, -1, -1, -1};
  BD_TRY(bd_op_infer(ctx, f, op, &map, types));
  split[0] = (int8_t)sample_loop(&map);
  split[1] = (int8_t)bd_index_find(&map, tensor_letter(f->values[op->out[0]].name));
  for (int axis = 0; axis < BD_MAX_AXES; axis++)
    out->split[index][axis] = split[axis] < 0 ? '-' : map.loop[split[axis]].letter;
  for (int i = 0; i < op->in_count; i++) {
    bd_sharding form = bd_split_operand(&map, mesh, split, i);
    if (f->values[op->in[i]].producer < 0) out->form[op->in[i]] = form;
  }
  for (int r = 0; r < op->out_count; r++) {
    bd_sharding form = bd_split_result(&map, mesh, split, r);
    for (int axis = 0; axis < BD_MAX_AXES; axis++)
      if (form.at[axis] < BD_REPLICATED) form.at[axis] = BD_REPLICATED;
    out->form[op->out[r]] = form;
    out->saved[op->out[r]] = true;
  }
  return BD_OK;
}

static bd_status cut_function(bd_ctx *ctx, const bd_function *f, const bd_mesh *mesh,
                              bd_strategy *out) {
  *out = (bd_strategy){
      .name = f->name, .function = f->name, .op_count = f->op_count, .value_count = f->value_count};
  out->split = bd_arena_array(ctx->arena, (size_t)f->op_count, sizeof *out->split);
  out->form = BD_NEW_ARRAY(ctx->arena, bd_sharding, f->value_count);
  out->saved = BD_NEW_ARRAY(ctx->arena, bool, f->value_count);
  for (int v = 0; v < f->value_count; v++)
    out->form[v] = bd_sharding_replicated();
  for (int i = 0; i < f->op_count; i++)
    BD_TRY(cut_op(ctx, f, i, mesh, out));
  return BD_OK;
}

// One range of calls per function and stage: the embedding on the first, the head on the last.
static bd_status place_layers(bd_ctx *ctx, const bd_module *train, const published_run *run,
                              bd_plan *plan) {
  plan->strategies = BD_NEW_ARRAY(ctx->arena, bd_strategy, 3);
  plan->ranges = BD_NEW_ARRAY(ctx->arena, bd_layer_range, run->layers + 2);
  int call = 0, block = 0;
  const char *last = "";
  for (int i = 0; i < train->main->op_count; i++) {
    const bd_op *op = &train->main->ops[i];
    if (op->kind != BD_OP_CALL) continue;
    const bd_function *f = bd_module_find(train, op->callee);
    if (!f || f->role != BD_ROLE_FORWARD) continue;
    if (strcmp(last, f->name) != 0) {
      if (plan->strategy_count == 3) break;
      bd_strategy *strategy = &plan->strategies[plan->strategy_count++];
      BD_TRY(cut_function(ctx, f, &plan->mesh, strategy));
      memcpy(strategy->saved, bd_strategy_kept(ctx, train, strategy),
             (size_t)f->value_count * sizeof *strategy->saved);
      last = f->name;
    }
    int stage = call == 0 ? 0 : block / (run->layers / run->pipeline);
    if (stage == run->pipeline) stage--;
    if (call > 0) block++;
    plan->ranges[plan->range_count++] = (bd_layer_range){
        .first = call++, .count = 1, .strategy = plan->strategy_count - 1, .stage = stage};
  }
  if (plan->strategy_count == 3 && call == run->layers + 2) return BD_OK;
  return bd_fail(ctx, BD_INVALID, BD_NOWHERE, "%s is not a chain of embedding, blocks and head",
                 run->name);
}

// One block forward, its collectives included.
static bd_status block_seconds(bd_ctx *ctx, const bd_module *train, const bd_cost_model *cost,
                               const bd_plan *plan, double *out_seconds) {
  bd_module *sharded, *spmd;
  BD_TRY(bd_apply_plan(ctx, train, plan, &sharded));
  BD_TRY(bd_partition(ctx, sharded, &spmd));
  const bd_function *block = bd_module_find(spmd, plan->strategies[1].name);
  if (block) return bd_cost_function(ctx, cost, spmd, block, out_seconds);
  return bd_fail(ctx, BD_INVALID, BD_NOWHERE, "%s has no block", plan->model);
}

// Neighbouring stages exchange activations and gradients at once, each tensor rank its part, which
// the others of its stage gather (Narayanan et al., SC 2021, section 4.1).
static double transfer_seconds(const bd_cost_model *cost, const published_run *run, double bytes) {
  int devices = bd_mesh_devices(&cost->mesh);
  bd_link link = bd_cluster_link_between(cost->cluster, 0, devices, devices);
  double seconds = bd_cost_message(&link, bytes / run->tensor);
  if (run->tensor > 1) seconds += bd_cost_exchange(cost, 1, bytes) + cost->cluster->kernel_seconds;
  return seconds;
}

// Seconds of the stages without their transfers.
static bd_status price_stages(bd_ctx *ctx, const bd_module *train, const bd_cost_model *cost,
                              const published_run *run, bd_plan *plan, bd_stage_seconds **out) {
  BD_TRY(place_layers(ctx, train, run, plan));
  BD_TRY(bd_plan_check(ctx, train, plan));
  BD_TRY(bd_plan_predict(ctx, train, cost->cluster, plan));
  // A whole block runs again before its backward; the embedding and the head do not.
  double again;
  BD_TRY(block_seconds(ctx, train, cost, plan, &again));
  again *= (double)run->layers / run->pipeline;
  *out = BD_NEW_ARRAY(ctx->arena, bd_stage_seconds, run->pipeline);
  for (int s = 0; s < run->pipeline; s++) {
    const bd_stage_prediction *p = &plan->predicted[s];
    (*out)[s] = (bd_stage_seconds){.forward = p->forward_seconds,
                                   .backward = p->backward_seconds - p->send_seconds + again,
                                   .sync = p->sync_seconds};
  }
  return BD_OK;
}

bd_status published_predict(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                            const published_run *run, published_times *out) {
  bd_plan plan = {.model = run->name,
                  .target = "cuda",
                  .optimizer = "adamw",
                  .precision = BD_BF16,
                  .global_batch = run->global_batch,
                  .micro_batch = (int64_t)run->micro_batch * run->data,
                  .sequence = bd_module_sequence(train),
                  .schedule = BD_SCHEDULE_1F1B,
                  .mesh = {2, {run->data, run->tensor}},
                  .stages = run->pipeline,
                  .threads_per_rank = 1};
  bd_cost_model cost = {cluster, plan.mesh, plan.micro_batch};
  bd_schedule schedule = run->chunks > 1 ? BD_SCHEDULE_INTERLEAVED : BD_SCHEDULE_1F1B;
  bd_stage_seconds *stage;
  BD_TRY(price_stages(ctx, train, &cost, run, &plan, &stage));
  double bytes = 2.0 * run->micro_batch * (double)plan.sequence * run->hidden;
  double transfer = run->pipeline > 1 ? transfer_seconds(&cost, run, bytes) : 0;
  BD_TRY(published_replay(ctx, run, schedule, stage, transfer, &out->replayed_seconds));
  for (int s = 0; s < run->pipeline; s++) {
    stage[s].forward += run->chunks * transfer;
    stage[s].backward += run->chunks * transfer;
  }
  out->formula_seconds =
      bd_step_seconds(schedule, run->pipeline, run->chunks, bd_plan_micro_batches(&plan), stage);
  return BD_OK;
}
