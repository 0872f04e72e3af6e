#include "planner/pipeline/shared.h"
#include "planner/step/end.h"
#include <math.h>

// A weight of main that several calls use.
typedef struct shared_weight {
  const bd_type *type;
  int uses, gradients; // by all calls; those that have a gradient
  int *each;           // per run: how often each of its calls uses it
} shared_weight;

typedef struct shared_list {
  int count;
  shared_weight *items;
} shared_list;

static int count_uses(const bd_op *call, const bd_function *callee, bd_id weight) {
  int uses = 0;
  for (int p = 0; p < callee->param_count; p++)
    uses += callee->is_weight[p] && call->in[p] == weight;
  return uses;
}

static shared_weight describe(bd_ctx *ctx, const bd_scene *scene, bd_id weight) {
  const bd_module *train = scene->train;
  const bd_function *main = train->main;
  shared_weight out = {.type = &main->values[weight].type};
  out.each = BD_NEW_ARRAY(ctx->arena, int, scene->runs->count);
  int run = 0, call = 0;
  for (int i = 0; i < main->op_count; i++) {
    if (!bd_module_calls_forward(train, &main->ops[i])) continue;
    const bd_function *callee = scene->runs->runs[run].function;
    int uses = count_uses(&main->ops[i], callee, weight);
    for (int p = 0; p < callee->param_count && uses; p++)
      out.gradients +=
          main->ops[i].in[p] == weight && bd_layer_learns(bd_layer_backward(train, callee), p);
    out.uses += uses;
    if (call == 0 || uses < out.each[run]) out.each[run] = uses;
    if (++call < scene->runs->runs[run].calls) continue;
    run++;
    call = 0;
  }
  return out;
}

static shared_list find_shared(bd_ctx *ctx, const bd_scene *scene) {
  const bd_function *main = scene->train->main;
  shared_list out = {0, NULL};
  if (!scene->runs->any_tied) return out;
  int *uses = BD_NEW_ARRAY(ctx->arena, int, main->value_count);
  for (int i = 0; i < main->op_count; i++)
    for (int o = 0;
         bd_module_calls_forward(scene->train, &main->ops[i]) && o < main->ops[i].in_count; o++)
      uses[main->ops[i].in[o]]++;
  out.items = BD_NEW_ARRAY(ctx->arena, shared_weight, scene->train->weight_count);
  for (int w = 0; w < scene->train->weight_count; w++) {
    bd_id weight = main->params[scene->train->input_count + w];
    if (uses[weight] > 1) out.items[out.count++] = describe(ctx, scene, weight);
  }
  return out;
}

static int64_t local_elements(const bd_setting *setting, const bd_type *type) {
  return bd_local_elements(&setting->mesh, &setting->tied_form, type, setting->micro_batch);
}

static int64_t weight_bytes(const bd_setting *setting, const bd_type *type) {
  return bd_align(local_elements(setting, type) * bd_dtype_bytes(type->dtype));
}

static int64_t state_bytes(const bd_scene *scene, const bd_setting *setting, const bd_type *type,
                           bool zero) {
  bd_state_form states =
      bd_memory_state_form(&setting->mesh, &setting->tied_form, NULL, zero ? ~0u : 0);
  return bd_memory_optimizer_bytes(scene->request->optimizer, scene->request->masters,
                                   &setting->mesh, type, &states);
}

static bool split_states(const bd_scene *scene) {
  return bd_constraints_split_states(scene->request->constraints, scene->request->zero);
}

static double gradient_bytes(const bd_setting *setting, const bd_type *type) {
  return (double)bd_align(local_elements(setting, type) *
                          bd_dtype_bytes(bd_dtype_wide(type->dtype)));
}

double bd_shared_least_bytes(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting) {
  shared_list list = find_shared(ctx, scene);
  double bytes = 0;
  for (int w = 0; w < list.count; w++) {
    const shared_weight *shared = &list.items[w];
    double weight = (double)weight_bytes(setting, shared->type);
    bytes += (double)state_bytes(scene, setting, shared->type, split_states(scene)) +
             shared->gradients * gradient_bytes(setting, shared->type) -
             (shared->uses - 1) * weight;
  }
  return bytes;
}

int bd_shared_uses(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting,
                   bd_shared_use **out_uses) {
  shared_list list = find_shared(ctx, scene);
  bd_shared_use *out = BD_NEW_ARRAY(ctx->arena, bd_shared_use, list.count);
  for (int w = 0; w < list.count; w++) {
    const shared_weight *shared = &list.items[w];
    double weight = (double)weight_bytes(setting, shared->type);
    double state = (double)state_bytes(scene, setting, shared->type, split_states(scene));
    if (shared->gradients < shared->uses) return -1;
    out[w] = (bd_shared_use){weight + state, gradient_bytes(setting, shared->type) - weight,
                             shared->each};
  }
  *out_uses = out;
  return list.count;
}

// Whether the first and the last layer use the weight, and no other.
static bool is_of_ends(const bd_model_runs *runs, const shared_weight *weight) {
  int last = runs->count - 1;
  return runs->calls > 1 && runs->runs[0].calls == 1 && runs->runs[last].calls == 1 &&
         weight->each[0] > 0 && weight->each[last] > 0 &&
         weight->each[0] + weight->each[last] == weight->uses;
}

double bd_shared_tie_seconds(bd_ctx *ctx, const bd_scene *scene, const bd_setting *setting) {
  bd_cost_model model = {scene->cluster, setting->mesh, setting->micro_batch};
  shared_list list = find_shared(ctx, scene);
  double seconds = 0;
  for (int w = 0; w < list.count && setting->stages > 1; w++) {
    const shared_weight *shared = &list.items[w];
    bd_type wide = *shared->type;
    wide.dtype = bd_dtype_wide(wide.dtype);
    bd_tie tie = {0, 0, setting->stages - 1,
                  bd_cost_local_bytes(&model, &wide, &setting->tied_form)};
    if (is_of_ends(scene->runs, shared) && shared->gradients == shared->uses)
      seconds += bd_step_end_tie_seconds(&model, 0, 1, &tie);
  }
  return seconds;
}

// Of a step's end, what a use of a weight takes less where the stage has another one already.
static double spared_seconds(const bd_scene *scene, const bd_setting *setting, const bd_type *type,
                             bool zero) {
  bd_cost_model model = {scene->cluster, setting->mesh, setting->micro_batch};
  bd_value weight = {.type = *type, .sharding = setting->tied_form}, gradient = weight;
  gradient.type.dtype = bd_dtype_wide(type->dtype);
  bd_weight_end end =
      bd_step_end_of_weight(&model, scene->request->optimizer, scene->request->masters, &weight,
                            &gradient, zero ? ~0u : 0);
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
  shared_list list = find_shared(ctx, scene);
  bd_pipeline_shared *out = bd_arena_array(ctx->arena, (size_t)list.count, sizeof *out);
  for (int w = 0; w < list.count; w++) {
    const shared_weight *shared = &list.items[w];
    taken own = {.weight = weight_bytes(setting, shared->type)};
    for (int zero = 0; zero < 2; zero++) {
      own.state[zero] = state_bytes(scene, setting, shared->type, zero);
      // One stage has all uses; of several, each is taken to have one.
      if (setting->stages == 1)
        own.seconds[zero] =
            spared_seconds(scene, setting, shared->type, zero) * (1 - 1.0 / shared->uses);
    }
    bool *used = BD_NEW_ARRAY(ctx->arena, bool, problem->run_count);
    for (int r = 0; r < problem->run_count; r++) {
      used[r] = shared->each[r] > 0;
      if (used[r]) take_out(ctx, &runs[r], shared->each[r], &own);
    }
    out[w] = (bd_pipeline_shared){(double)(own.weight + own.state[problem->zero]), used};
  }
  problem->shared_count = list.count;
  problem->shared = out;
}
