#include "planner/shared_weights.h"
#include <math.h>

// Weights of no more elements, of all that the model has, are whole where they are tied.
#define WHOLE_PART 1e-4

const bd_weight_use *bd_model_weight_uses(bd_ctx *ctx, const bd_module *train,
                                          bd_whole_weights whole) {
  const bd_function *main = train->main;
  bd_weight_use *uses = BD_NEW_ARRAY(ctx->arena, bd_weight_use, main->value_count);
  double all = 0;
  for (int i = 0; i < main->op_count; i++)
    for (int o = 0; bd_module_calls_forward(train, &main->ops[i]) && o < main->ops[i].in_count; o++)
      uses[main->ops[i].in[o]].calls++;
  for (int w = 0; w < train->weight_count; w++)
    all += (double)bd_type_elements(&train->weights[w].type, 1);
  for (int w = 0; w < train->weight_count; w++) {
    double elements = (double)bd_type_elements(&train->weights[w].type, 1);
    uses[main->params[train->input_count + w]].whole =
        whole == BD_WHOLE_ALL || (whole == BD_WHOLE_SMALL && elements <= WHOLE_PART * all);
  }
  return uses;
}

static int count_uses(const bd_op *call, const bd_function *callee, bd_id weight) {
  int uses = 0;
  for (int p = 0; p < callee->param_count; p++)
    uses += callee->is_weight[p] && call->in[p] == weight;
  return uses;
}

static bd_shared_weight describe(bd_ctx *ctx, const bd_module *train, const bd_model_runs *runs,
                                 bd_id weight, bool whole) {
  const bd_function *main = train->main;
  bd_shared_weight out = {.type = &main->values[weight].type, .whole = whole};
  int run = 0, call = 0, *each = BD_NEW_ARRAY(ctx->arena, int, runs->count);
  for (int i = 0; i < main->op_count; i++) {
    if (!bd_module_calls_forward(train, &main->ops[i])) continue;
    const bd_function *callee = runs->runs[run].function;
    int uses = count_uses(&main->ops[i], callee, weight);
    for (int p = 0; p < callee->param_count && uses; p++)
      out.gradients +=
          main->ops[i].in[p] == weight && bd_layer_learns(bd_layer_backward(train, callee), p);
    out.uses += uses;
    if (call == 0 || uses < each[run]) each[run] = uses;
    if (++call < runs->runs[run].calls) continue;
    run++;
    call = 0;
  }
  out.each = each;
  return out;
}

bool bd_shared_is_of_ends(const bd_model_runs *runs, const bd_shared_weight *weight) {
  int last = runs->count - 1;
  return runs->calls > 1 && runs->runs[0].calls == 1 && runs->runs[last].calls == 1 &&
         weight->each[0] > 0 && weight->each[last] > 0 &&
         weight->each[0] + weight->each[last] == weight->uses;
}

// Whether all calls of a run use the weight as often, and all of its uses have a gradient.
static bool is_regular(const bd_model_runs *runs, const bd_shared_weight *weight) {
  int uses = 0;
  for (int r = 0; r < runs->count; r++)
    uses += weight->each[r] * runs->runs[r].calls;
  return uses == weight->uses && weight->gradients == weight->uses;
}

// What falls to a use by a run's calls. Whether states lie in parts is one choice for all uses,
// which each of them would make for itself: so all falls to the last run that uses the weight. The
// first and the last layer are on stages of their own where there are several.
static void share_out(const bd_model_runs *runs, const bd_shared_weight *weight, int run,
                      double share[2]) {
  bool last = true;
  share[0] = share[1] = 1.0 / weight->uses;
  if (!is_regular(runs, weight)) return;
  for (int r = run + 1; r < runs->count; r++)
    last = last && weight->each[r] == 0;
  share[0] = share[1] = last ? 1.0 / (weight->each[run] * runs->runs[run].calls) : 0;
  if (bd_shared_is_of_ends(runs, weight)) share[1] = 1.0 / weight->each[run];
}

// The shares of a run's uses, the least of all its calls; `of`: per value of main, the shared
// weight that it is, or NULL.
static void find_shares(bd_ctx *ctx, const bd_module *train, const bd_shared_weight *const *of,
                        bd_model_runs *runs) {
  const bd_op *call = train->main->ops;
  for (int r = 0; r < runs->count; r++) {
    bd_run *run = &runs->runs[r];
    int count = run->function->param_count;
    bd_weight_use *uses = bd_arena_copy(ctx->arena, run->weight_uses, count, sizeof *uses);
    for (int p = 0; p < count; p++)
      uses[p].share[0] = uses[p].share[1] = 1;
    for (int left = run->calls; left > 0; call++) {
      if (!bd_module_calls_forward(train, call)) continue;
      left--;
      for (int p = 0; p < count; p++) {
        double share[2];
        if (!of[call->in[p]]) continue;
        share_out(runs, of[call->in[p]], r, share);
        for (int several = 0; several < 2; several++)
          uses[p].share[several] = fmin(uses[p].share[several], share[several]);
      }
    }
    run->weight_uses = uses;
  }
}

void bd_model_find_shared(bd_ctx *ctx, const bd_module *train, const bd_weight_use *uses,
                          bd_model_runs *runs) {
  const bd_function *main = train->main;
  bd_shared_weight *shared = BD_NEW_ARRAY(ctx->arena, bd_shared_weight, train->weight_count);
  const bd_shared_weight **of =
      BD_NEW_ARRAY(ctx->arena, const bd_shared_weight *, main->value_count);
  for (int w = 0; w < train->weight_count; w++) {
    bd_id weight = main->params[train->input_count + w];
    if (uses[weight].calls < 2) continue;
    shared[runs->shared_count] = describe(ctx, train, runs, weight, uses[weight].whole);
    of[weight] = &shared[runs->shared_count++];
    runs->any_tied |= !uses[weight].whole;
  }
  runs->shared = shared;
  find_shares(ctx, train, of, runs);
}
