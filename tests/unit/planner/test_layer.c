// Layer problems of real functions are solved as well as by brute force, and told apart by their
// keys.
#include "planner/choice/eliminate.h"
#include "planner/layer/key.h"
#include "planner/layer/options.h"
#include "planner/layer/problem.h"
#include "planner/layer/share.h"
#include "planner/space.h"
#include "tests/unit/planner/support_choice.h"
#include "tests/unit/planner/support_layer.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

// Product of the options, as far as it matters.
static double product(const bd_choice_problem *p) {
  double size = 1;
  for (int i = 0; i < p->nodes; i++)
    size *= p->node[i].options;
  return size;
}

static int compared, capped;

static void compare(bd_ctx *ctx, const bd_layer_request *request) {
  bd_layer_space space;
  bd_choice_problem problem;
  bd_choice choice;
  double **tape;
  assert_int_equal(bd_layer_space_read(ctx, request, &space), BD_OK);
  bd_layer_space_enumerate(ctx, &space, NULL);
  bd_layer_problem(ctx, &space, &problem, &tape);
  for (int i = 0; i < problem.nodes; i++)
    for (int o = 0; o < problem.node[i].options; o++)
      problem.node[i].usage[o] += tape[i][o];
  if (product(&problem) > 3e5) return;
  assert_int_equal(bd_choice_solve(ctx, &problem, 20, &choice), BD_OK);
  double best = exhaustive_choice(ctx, &problem);
  compared++;
  assert_int_equal(choice.feasible, isfinite(best));
  if (!choice.feasible) return;
  assert_true(choice.optimal);
  assert_true(fabs(choice.cost - best) <= 1e-6 * best);
  assert_true(choice.bound <= best * (1 + 1e-6));
  problem.budget = choice.usage * 0.8;
  assert_int_equal(bd_choice_solve(ctx, &problem, 20, &choice), BD_OK);
  best = exhaustive_choice(ctx, &problem);
  assert_true(choice.bound <= best * (1 + 1e-6));
  assert_int_equal(choice.feasible, isfinite(best));
  if (!choice.feasible) return;
  capped++;
  assert_true(choice.usage <= problem.budget);
  if (choice.optimal) assert_true(fabs(choice.cost - best) <= 1e-6 * best);
}

static void test_equals_brute_force(void **unused) {
  (void)unused;
  layer_visit_model("examples/mlp.json", "cpu:1x4", 0, AS_IT_IS, compare);
  layer_visit_model("gpt2-tiny", "cpu:1x4", 0, AS_IT_IS, compare);
  layer_visit_model("llama-tiny", "h100:1x4", 0, AS_IT_IS, compare);
  layer_visit_model("tests/oracle/qwen2", "h100:1x4", 0, AS_IT_IS, compare);
  assert_true(compared > 20);
  assert_true(capped > 0);
}

static void test_parts_equal_brute_force(void **unused) {
  (void)unused;
  compared = 0;
  layer_visit_model("llama-tiny", "h100:1x4", 0, IN_PARTS, compare);
  assert_true(compared > 0);
}

// Names do not count; types, attributes and how weights are shared do.
// What a person fixes of a layer is part of its problem.
static void tell_pins_apart(bd_ctx *ctx, const bd_layer_request *base) {
  bd_layer_request request = *base;
  int ops = request.function->op_count, values = request.function->value_count;
  bd_strategy_pin pin = {.split = bd_arena_array(ctx->arena, (size_t)ops, sizeof *pin.split),
                         .balanced = BD_NEW_ARRAY(ctx->arena, signed char, ops),
                         .saved = BD_NEW_ARRAY(ctx->arena, signed char, values)};
  request.pin = &pin;
  const char *pinned = bd_layer_key(ctx, &request);
  assert_ptr_not_equal(pinned, bd_layer_key(ctx, base));
  signed char *of[] = {(signed char *)pin.split[0], &pin.balanced[0], &pin.saved[0]};
  for (int i = 0; i < 3; i++) {
    *of[i] += 1;
    assert_ptr_not_equal(pinned, bd_layer_key(ctx, &request));
    *of[i] -= 1;
  }
  assert_ptr_equal(pinned, bd_layer_key(ctx, &request));
}

static void test_keys_tell_problems_apart(void **unused) {
  (void)unused;
  bd_ctx *ctx = bd_ctx_create();
  bd_module *train = layer_train(ctx, "gpt2-tiny");
  bd_model_runs runs = bd_model_runs_find(ctx, train, NULL);
  bd_layer_request request = {.train = train, .optimizer = "adamw", .passes = 2};
  request.function = runs.runs[1].function;
  request.weight_uses = runs.runs[1].weight_uses;
  const char *key = bd_layer_key(ctx, &request);
  tell_pins_apart(ctx, &request);
  bd_function *other = bd_function_clone(ctx, request.function);
  other->name = bd_intern_z(ctx, "other");
  for (int v = 0; v < other->value_count; v++)
    other->values[v].name = bd_intern_f(ctx, "v%d", v);
  request.function = other;
  assert_ptr_equal(key, bd_layer_key(ctx, &request));
  request.cost.micro_batch = 2;
  assert_ptr_not_equal(key, bd_layer_key(ctx, &request));
  request.cost.micro_batch = 0;
  bd_weight_use *uses = BD_NEW_ARRAY(ctx->arena, bd_weight_use, other->param_count);
  for (int p = 0; p < other->param_count; p++)
    uses[p].calls = 2;
  request.weight_uses = uses;
  const char *tied = bd_layer_key(ctx, &request);
  assert_ptr_not_equal(key, tied);
  uses[0].whole = true;
  assert_ptr_not_equal(tied, bd_layer_key(ctx, &request));
  request.weight_uses = runs.runs[1].weight_uses;
  other->values[0].type.dims[1]++;
  assert_ptr_not_equal(key, bd_layer_key(ctx, &request));
  request.function = runs.runs[0].function;
  request.weight_uses = runs.runs[0].weight_uses;
  assert_ptr_not_equal(key, bd_layer_key(ctx, &request));
  bd_ctx_destroy(ctx);
}

static int shared, unequal;

// All shares of a value that others read make up 1.
static void hold_shares(bd_ctx *ctx, const bd_layer_request *request) {
  bd_layer_space space;
  const bd_function *f = request->function;
  assert_int_equal(bd_layer_space_read(ctx, request, &space), BD_OK);
  for (bd_id v = 0; v < f->value_count; v++) {
    double sum = 0, most = 0, least = 1;
    int maker = f->values[v].producer;
    for (int i = 0; i < f->op_count; i++)
      for (int k = 0; k < f->ops[i].in_count; k++) {
        if (f->ops[i].in[k] != v) continue;
        if (maker >= 0 && space.cluster_of_op[maker] == space.cluster_of_op[i]) continue;
        double share = bd_layer_share(&space, i, v);
        sum += share;
        most = fmax(most, share);
        least = fmin(least, share);
      }
    if (!space.consumers[v]) continue;
    assert_true(fabs(sum - 1) < 1e-12);
    shared += space.consumers[v] > 1;
    unequal += least < most;
  }
}

static void test_shares_make_up_one(void **unused) {
  (void)unused;
  layer_visit_model("gpt2-tiny", "cpu:1x4", -1, AS_IT_IS, hold_shares);
  layer_visit_model("resnet-tiny", "cpu:1x4", -1, AS_IT_IS, hold_shares);
  assert_true(shared > 0 && unequal == 0);
  layer_visit_model("llama-tiny", "cpu:1x4", -1, AS_IT_IS, hold_shares);
  int grouped = unequal;
  assert_true(grouped > 0);
  layer_visit_model("tests/oracle/mixtral", "cpu:1x4", -1, AS_IT_IS, hold_shares);
  assert_true(unequal > grouped);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_equals_brute_force),
                                     cmocka_unit_test(test_parts_equal_brute_force),
                                     cmocka_unit_test(test_shares_make_up_one),
                                     cmocka_unit_test(test_keys_tell_problems_apart)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
