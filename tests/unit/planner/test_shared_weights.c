// Weights that layers have in common: large ones may lie in parts, the form of small ones is no
// choice.
#include "frontend/frontend.h"
#include "ir/pass.h"
#include "planner/space.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static bd_module *load(bd_ctx *ctx, const char *model) {
  bd_model_options options = {.sequence = 16};
  bd_module *graph, *train;
  assert_int_equal(bd_model_load(ctx, model, &options, &graph), BD_OK);
  assert_int_equal(bd_pass_autodiff(ctx, graph, &train), BD_OK);
  return train;
}

// How many of the shared weights are whole.
static int count_whole(const bd_model_runs *runs) {
  int count = 0;
  for (int w = 0; w < runs->shared_count; w++)
    count += runs->shared[w].whole;
  return count;
}

// The tables of relative positions of the encoder's and the decoder's layers, but not the tokens'
// embeddings.
static void test_small_are_whole(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  bd_model_runs runs = bd_model_runs_find(ctx, load(ctx, "tests/unit/planner/t5-small"), NULL);
  assert_int_equal(runs.shared_count, 3);
  assert_int_equal(count_whole(&runs), 2);
  assert_true(runs.any_tied);
  for (int w = 0; w < runs.shared_count; w++)
    assert_int_equal(runs.shared[w].whole, runs.shared[w].type->dims[0] == 32);
  bd_ctx_destroy(ctx);
}

// Over all calls, what falls to the uses of shared weights.
static double sum_shares(const bd_model_runs *runs, int several) {
  double sum = 0;
  for (int r = 0; r < runs->count; r++)
    for (int p = 0; p < runs->runs[r].function->param_count; p++)
      if (runs->runs[r].weight_uses[p].calls > 1)
        sum += runs->runs[r].calls * runs->runs[r].weight_uses[p].share[several];
  return sum;
}

// What a stage does once falls to the uses once, but to both ends' where they are stages of their
// own.
static void test_shares(void **state) {
  (void)state;
  static const char *const models[] = {"gpt2-tiny", "tests/unit/planner/t5-small",
                                       "tests/oracle/t5"};
  for (int i = 0; i < 3; i++) {
    bd_ctx *ctx = bd_ctx_create();
    bd_model_runs runs = bd_model_runs_find(ctx, load(ctx, models[i]), NULL);
    assert_true(runs.shared_count > 0);
    assert_true(fabs(sum_shares(&runs, 0) - runs.shared_count) < 1e-9);
    assert_true(fabs(sum_shares(&runs, 1) - runs.shared_count - (i == 0)) < 1e-9);
    bd_ctx_destroy(ctx);
  }
}

// Of a small model they are no small part.
static void test_parts_are_of_the_model(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  bd_model_runs runs = bd_model_runs_find(ctx, load(ctx, "tests/oracle/t5"), NULL);
  assert_int_equal(runs.shared_count, 3);
  assert_int_equal(count_whole(&runs), 0);
  bd_ctx_destroy(ctx);
}

// A partial plan may ask for any form.
static void test_open_where_layers_are_fixed(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  bd_layer_pin pin = {.count = 1, .stage = 0, .strategy = -1};
  bd_constraints constraints = {.layer_count = 1, .layers = &pin};
  bd_module *train = load(ctx, "tests/unit/planner/t5-small");
  bd_model_runs runs = bd_model_runs_find(ctx, train, &constraints);
  assert_int_equal(runs.shared_count, 3);
  assert_int_equal(count_whole(&runs), 0);
  bd_ctx_destroy(ctx);
}

// In plans of the full space all are whole.
static void test_all_are_whole(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  bd_model_runs runs = bd_model_runs_find_whole(ctx, load(ctx, "tests/oracle/t5"), NULL);
  assert_int_equal(runs.shared_count, 3);
  assert_int_equal(count_whole(&runs), 3);
  assert_false(runs.any_tied);
  bd_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_small_are_whole), cmocka_unit_test(test_shares),
      cmocka_unit_test(test_parts_are_of_the_model),
      cmocka_unit_test(test_open_where_layers_are_fixed), cmocka_unit_test(test_all_are_whole)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
