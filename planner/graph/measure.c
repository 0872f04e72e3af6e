// What a plan of a layer graph costs, by definition.
#include "planner/graph/layers.h"
#include <math.h>

static const bd_layers_option *option_of(const bd_layers_problem *problem,
                                         const bd_layers_plan *plan, int layer) {
  return &problem->layers[layer].options[plan->option[layer]];
}

static void add_seconds(bd_stage_seconds *stage, double both_ways) {
  stage->forward += both_ways / 2;
  stage->backward += both_ways / 2;
}

// The boundary before `layer`: a change of form within a part, or a hand-over between two; false:
// not possible.
static bool add_cut(const bd_layers_problem *problem, const bd_layers_plan *plan, int layer,
                    bd_layers_stage *stages) {
  const bd_layers_cut *cut = &problem->cuts[layer];
  int left = plan->part[layer - 1], right = plan->part[layer];
  int before = option_of(problem, plan, layer - 1)->form,
      after = option_of(problem, plan, layer)->form;
  int from = left % plan->stages, to = right % plan->stages;
  if (left == right) {
    double change = cut->change[bd_layers_change_at(problem, plan->mode[to], before, after)];
    add_seconds(&stages[to].seconds, change);
    return isfinite(change);
  }
  int at = bd_layers_hand_at(problem, plan->mode[from], before, plan->mode[to], after);
  add_seconds(&stages[from].seconds, cut->send[at]);
  add_seconds(&stages[to].seconds, cut->receive[at]);
  return isfinite(cut->send[at]) && isfinite(cut->receive[at]);
}

static bool devices_suffice(const bd_layers_problem *problem, const bd_layers_plan *plan) {
  for (int g = 0; g < problem->group_count; g++) {
    int64_t used = 0;
    for (int s = 0; s < plan->stages; s++)
      if (problem->modes[plan->mode[s]].group == g) used += problem->modes[plan->mode[s]].devices;
    if (used > problem->groups[g].count) return false;
  }
  return true;
}

// Bytes of a stage's devices over all its chunks.
static int64_t stage_bytes(const bd_layers_problem *problem, const bd_layers_plan *plan,
                           int stage) {
  bd_schedule_hold held =
      bd_schedule_held(plan->schedule, stage, plan->stages, plan->chunks, plan->micro_batches);
  int64_t fixed = 0, workspace = 0, tape = 0, largest = 0;
  for (int i = 0; i < problem->layer_count; i++) {
    if (plan->part[i] % plan->stages != stage) continue;
    const bd_layers_option *option = option_of(problem, plan, i);
    if (!i || plan->part[i - 1] != plan->part[i])
      tape = i ? held.tapes * problem->cuts[i].held_bytes[plan->mode[stage]] : 0;
    fixed = bd_layers_add_bytes(fixed, option->fixed_bytes);
    tape = bd_layers_add_bytes(tape, held.tapes * option->micro_batch_bytes +
                                         held.weight_inputs * option->weight_input_bytes);
    if (tape > largest) largest = tape;
    if (option->workspace_bytes > workspace) workspace = option->workspace_bytes;
  }
  return bd_layers_add_bytes(bd_layers_add_bytes(fixed, largest), workspace);
}

double bd_layers_measure(const bd_layers_problem *problem, const bd_layers_plan *plan,
                         bd_layers_stage *out) {
  bd_stage_seconds seconds[BD_LAYERS_MAX_STAGES];
  if (!devices_suffice(problem, plan)) return INFINITY;
  for (int s = 0; s < plan->stages; s++)
    out[s] = (bd_layers_stage){.bytes = stage_bytes(problem, plan, s)};
  for (int i = 0; i < problem->layer_count; i++) {
    const bd_layers_option *option = option_of(problem, plan, i);
    int stage = plan->part[i] % plan->stages;
    bd_stage_seconds *at = &out[stage].seconds;
    if (option->mode != plan->mode[stage] ||
        (problem->stage && problem->stage[i] >= 0 && problem->stage[i] != stage) ||
        (option->micro_batches && option->micro_batches != plan->micro_batches))
      return INFINITY;
    at->forward += option->forward_seconds;
    at->backward += option->backward_seconds;
    if (plan->schedule == BD_SCHEDULE_ZERO_BUBBLE) at->weight += option->weight_seconds;
    at->sync += option->sync_seconds;
    if (i && !add_cut(problem, plan, i, out)) return INFINITY;
  }
  for (int s = 0; s < plan->stages; s++)
    seconds[s] = out[s].seconds;
  return bd_step_seconds(plan->schedule, plan->stages, plan->chunks, plan->micro_batches, seconds);
}
