#include "planner/pipeline/shared.h"
#include "planner/shared_weights.h"
#include "planner/step/end.h"
#include <math.h>

static bd_sharding form_of(const bd_setting *setting, const bd_shared_weight *shared) {
  return shared->whole ? bd_sharding_replicated() : setting->tied_form;
}

static int64_t local_elements(const bd_setting *setting, const bd_shared_weight *shared) {
  bd_sharding form = form_of(setting, shared);
  return bd_local_elements(&setting->mesh, &form, shared->type, setting->micro_batch);
}

static int64_t weight_bytes(const bd_setting *setting, const bd_shared_weight *shared) {
  return bd_align(local_elements(setting, shared) * bd_dtype_bytes(shared->type->dtype));
}

static int64_t state_bytes(const bd_scene *scene, const bd_setting *setting,
                           const bd_shared_weight *shared, bool zero) {
  bd_sharding form = form_of(setting, shared);
  bd_state_form states = bd_memory_state_form(&setting->mesh, &form, NULL, zero ? ~0u : 0);
  return bd_memory_optimizer_bytes(scene->request->optimizer, scene->request->masters,
                                   &setting->mesh, shared->type, &states);
}

static bool split_states(const bd_scene *scene) {
  return bd_constraints_split_states(scene->request->constraints, scene->request->zero);
}

static bd_dtype gradient_dtype(const bd_scene *scene, const bd_shared_weight *shared) {
  return bd_gradient_dtype(scene->request->gradients, shared->type->dtype);
}

static double gradient_bytes(const bd_scene *scene, const bd_setting *setting,
                             const bd_shared_weight *shared) {
  return (double)bd_align(local_elements(setting, shared) *
                          bd_dtype_bytes(gradient_dtype(scene, shared)));
}

double bd_shared_least_bytes(const bd_scene *scene, const bd_setting *setting) {
  double bytes = 0;
  for (int w = 0; w < scene->runs->shared_count; w++) {
    const bd_shared_weight *shared = &scene->runs->shared[w];
    double weight = (double)weight_bytes(setting, shared);
    bytes += (double)state_bytes(scene, setting, shared, split_states(scene)) +
             shared->gradients * gradient_bytes(scene, setting, shared) -
             (shared->uses - 1) * weight;
  }
  return bytes;
}

int bd_shared_uses(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                   bd_shared_use **out_uses) {
  bd_shared_use *out = BD_NEW_ARRAY(ctx->arena, bd_shared_use, scene->runs->shared_count);
  for (int w = 0; w < scene->runs->shared_count; w++) {
    const bd_shared_weight *shared = &scene->runs->shared[w];
    double weight = (double)weight_bytes(setting, shared);
    double state = (double)state_bytes(scene, setting, shared, split_states(scene));
    if (shared->gradients < shared->uses) return -1;
    out[w] = (bd_shared_use){weight + state, gradient_bytes(scene, setting, shared) - weight,
                             shared->each};
  }
  *out_uses = out;
  return scene->runs->shared_count;
}

double bd_shared_tie_seconds(const bd_scene *scene, const bd_setting *setting) {
  bd_cost_model model = {scene->cluster, setting->mesh, setting->micro_batch};
  double seconds = 0;
  for (int w = 0; w < scene->runs->shared_count && setting->stages > 1; w++) {
    const bd_shared_weight *shared = &scene->runs->shared[w];
    bd_type gradient = *shared->type;
    bd_sharding form = form_of(setting, shared);
    gradient.dtype = gradient_dtype(scene, shared);
    bd_tie tie = {0, 0, setting->stages - 1, bd_cost_local_bytes(&model, &gradient, &form)};
    if (bd_shared_is_of_ends(scene->runs, shared) && shared->gradients == shared->uses)
      seconds += bd_step_end_tie_seconds(&model, 0, 1, &tie);
  }
  return seconds;
}

// Of a step's end, what a use of a weight takes less where the stage has another one already.
static double spared_seconds(const bd_scene *scene, const bd_setting *setting,
                             const bd_shared_weight *shared, bool zero) {
  bd_cost_model model = {scene->cluster, setting->mesh, setting->micro_batch};
  bd_value weight = {.type = *shared->type, .sharding = form_of(setting, shared)};
  bd_value gradient = weight;
  gradient.type.dtype = gradient_dtype(scene, shared);
  bd_weight_end end =
      bd_step_end_of_weight(&model, scene->request->optimizer, scene->request->masters, &weight,
                            &gradient, zero ? ~0u : 0, 0, false);
  return end.once - end.join;
}

// What candidates that use a shared weight hold of it, and take more than their share of its
// update.
typedef struct taken {
  int64_t weight, state[2];
  double seconds[2]; // of every use
} taken;

static void take_out(bd_ctx *ctx, bd_pipeline_run *run, int uses, const taken *own) {
  bd_layer_candidate *list = BD_NEW_ARRAY(ctx->arena, bd_layer_candidate, run->candidate_count);
  for (int k = 0; k < run->candidate_count; k++) {
    list[k] = run->candidates[k];
    list[k].weight_bytes -= uses * own->weight;
    for (int zero = 0; zero < 2; zero++) {
      list[k].optimizer_bytes[zero] -= uses * own->state[zero];
      list[k].sync_seconds[zero] -= uses * own->seconds[zero];
      list[k].apply_seconds[zero] = fmin(list[k].apply_seconds[zero], list[k].sync_seconds[zero]);
    }
  }
  run->candidates = list;
}

void bd_shared_set_apart(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                         bd_pipeline_run *runs, bd_pipeline_problem *problem) {
  bd_pipeline_shared *out =
      bd_arena_array(ctx->arena, (size_t)scene->runs->shared_count, sizeof *out);
  for (int w = 0; w < scene->runs->shared_count; w++) {
    const bd_shared_weight *shared = &scene->runs->shared[w];
    taken own = {.weight = weight_bytes(setting, shared)};
    for (int zero = 0; zero < 2; zero++) {
      own.state[zero] = state_bytes(scene, setting, shared, zero);
      // One stage has all uses; of several, each is taken to have one.
      if (setting->stages == 1)
        own.seconds[zero] = spared_seconds(scene, setting, shared, zero) * (1 - 1.0 / shared->uses);
    }
    bool *used = BD_NEW_ARRAY(ctx->arena, bool, problem->run_count);
    for (int r = 0; r < problem->run_count; r++) {
      used[r] = shared->each[r] > 0;
      if (used[r]) take_out(ctx, &runs[r], shared->each[r], &own);
    }
    out[w] = (bd_pipeline_shared){(double)(own.weight + own.state[problem->zero]), used};
  }
  problem->shared_count = scene->runs->shared_count;
  problem->shared = out;
}
