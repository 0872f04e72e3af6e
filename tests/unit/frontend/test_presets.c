#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "frontend/frontend.h"
#include "tests/unit/context.h"
#include <string.h>

static bd_module *load(bd_ctx *ctx, const char *name, int64_t sequence) {
  bd_module *graph = NULL;
  bd_model_options options = {.sequence = sequence};
  bd_status status = bd_model_load(ctx, name, &options, &graph);
  if (status != BD_OK) bd_diags_print(ctx, stderr, false);
  assert_int_equal(status, BD_OK);
  return graph;
}

static int64_t count_parameters(const bd_module *graph) {
  int64_t sum = 0;
  for (int i = 0; i < graph->weight_count; ++i)
    sum += bd_type_elements(&graph->weights[i].type, 1);
  return sum;
}

static void test_parameter_counts(void **state) {
  static const struct {
    const char *name;
    int64_t parameters;
  } known[] = {
      {"gpt2-124m", 124439808},    {"gpt2-355m", 354823168},      {"gpt2-774m", 774030080},
      {"gpt2-1558m", 1557611200},  {"llama-3-8b", 8030261248},    {"llama-3-70b", 70553706496},
      {"gpt3-175b", 174604259328}, {"mixtral-8x7b", 46702792704}, {"gpt2-tiny", 218560}};
  for (size_t i = 0; i < sizeof known / sizeof known[0]; ++i)
    assert_int_equal(count_parameters(load(*state, known[i].name, 0)), known[i].parameters);
}

static void test_every_preset_loads_and_round_trips(void **state) {
  int count = 0;
  const bd_preset *presets = bd_presets(&count);
  assert_true(count >= 10);
  for (int i = 0; i < count; ++i) {
    bd_ctx *ctx = *state;
    bd_text first = bd_text_init(ctx->arena), second = bd_text_init(ctx->arena);
    bd_module_print(load(ctx, presets[i].name, 0), &first);
    bd_module *again = NULL;
    assert_int_equal(bd_module_parse(ctx, "t", first.data, first.length, &again), BD_OK);
    bd_module_print(again, &second);
    assert_string_equal(first.data, second.data);
  }
}

static void test_sequence(void **state) {
  bd_ctx *ctx = *state;
  const bd_module *graph = load(ctx, "gpt2-tiny", 16);
  assert_int_equal(graph->main->values[graph->main->params[0]].type.dims[1], 16);
  assert_int_equal(count_parameters(graph), 218560);
  bd_module *refused = NULL;
  bd_model_options options = {.sequence = 33};
  assert_int_equal(bd_model_load(ctx, "gpt2-tiny", &options, &refused), BD_INVALID);
}

// The parts of a fused stored tensor cover it exactly once.
static void test_fused_parts(void **state) {
  const bd_module *graph = load(*state, "gpt2-tiny", 0);
  int64_t next = 0;
  for (int i = 0; i < graph->weight_count; ++i) {
    const bd_storage *storage = &graph->weights[i].storage;
    if (strcmp(storage->name, "h.1.attn.c_attn.weight") != 0) continue;
    assert_int_equal(storage->slice_dim, 1);
    assert_int_equal(storage->slice_start, next);
    next += storage->slice_size;
  }
  assert_int_equal(next, 3 * 64);
}

static void test_decay_is_for_matrices(void **state) {
  const bd_module *graph = load(*state, "gpt2-tiny", 0);
  for (int i = 0; i < graph->weight_count; ++i)
    assert_int_equal(graph->weights[i].decay, graph->weights[i].storage.rank >= 2);
}

static void test_did_you_mean(void **state) {
  bd_ctx *ctx = *state;
  bd_module *graph = NULL;
  bd_model_options options = {0};
  assert_int_equal(bd_model_load(ctx, "gpt2-125m", &options, &graph), BD_INVALID);
  assert_non_null(strstr(ctx->last_diag->message, "gpt2-124m"));
  assert_null(graph);
}

static void test_examples(void **state) {
  assert_int_equal(count_parameters(load(*state, "examples/mlp.json", 0)), 84992);
  assert_int_equal(count_parameters(load(*state, "examples/cnn.json", 0)), 20442);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_parameter_counts, make_ctx, drop_ctx),
      cmocka_unit_test_setup_teardown(test_every_preset_loads_and_round_trips, make_ctx, drop_ctx),
      cmocka_unit_test_setup_teardown(test_sequence, make_ctx, drop_ctx),
      cmocka_unit_test_setup_teardown(test_fused_parts, make_ctx, drop_ctx),
      cmocka_unit_test_setup_teardown(test_decay_is_for_matrices, make_ctx, drop_ctx),
      cmocka_unit_test_setup_teardown(test_did_you_mean, make_ctx, drop_ctx),
      cmocka_unit_test_setup_teardown(test_examples, make_ctx, drop_ctx),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
