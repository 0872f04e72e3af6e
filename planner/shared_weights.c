#include "planner/shared_weights.h"

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

void bd_model_find_shared(bd_ctx *ctx, const bd_module *train, const bd_weight_use *uses,
                          bd_model_runs *runs) {
  const bd_function *main = train->main;
  bd_shared_weight *shared = BD_NEW_ARRAY(ctx->arena, bd_shared_weight, train->weight_count);
  for (int w = 0; w < train->weight_count; w++) {
    bd_id weight = main->params[train->input_count + w];
    if (uses[weight].calls < 2) continue;
    shared[runs->shared_count++] = describe(ctx, train, runs, weight, uses[weight].whole);
    runs->any_tied |= !uses[weight].whole;
  }
  runs->shared = shared;
}
