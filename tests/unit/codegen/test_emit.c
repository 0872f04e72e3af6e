// What the emitted folder looks like: sizes, names, determinism, and the exec text behind it.
#include "codegen/codegen.h"
#include "frontend/transformer.h"
#include "ir/base/file.h"
#include "ir/pass.h"
#include "tests/unit/codegen/support_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const plan_recipe one_rank = {.kind = PLAN_REPLICATED,
                                     .mesh = {1, {1}},
                                     .stages = 1,
                                     .schedule = BD_SCHEDULE_1F1B,
                                     .global_batch = 4,
                                     .micro_batch = 2,
                                     .sequence = 16};
static const plan_recipe four_ranks = {.kind = PLAN_RANDOM,
                                       .mesh = {2, {2, 2}},
                                       .stages = 2,
                                       .schedule = BD_SCHEDULE_1F1B,
                                       .global_batch = 8,
                                       .micro_batch = 2,
                                       .sequence = 16,
                                       .zero_axes = 1};

static char folder[] = "/tmp/braid-test-emit-XXXXXX";

static int make_folder(void **state) {
  (void)state;
  return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
  static const char *const names[] = {"main.c",    "stage0.c",   "stage1.c", "kernels.h",
                                      "kernels.s", "kernels.ll", "Makefile",  "README", NULL};
  bd_ctx *ctx = bd_ctx_create();
  (void)state;
  for (int i = 0; names[i]; ++i)
    (void)unlink(bd_path_join(ctx, folder, names[i]));
  bd_ctx_destroy(ctx);
  return rmdir(folder);
}

static bd_module *make_train(bd_ctx *ctx, int64_t layers) {
  const bd_gpt2_config config = {.vocabulary = 101,
                                 .positions = 16,
                                 .width = 40,
                                 .layers = layers,
                                 .heads = 5,
                                 .inner = 160,
                                 .activation = BD_OP_GELU,
                                 .epsilon = 1e-5,
                                 .dropout_embedding = 0.1,
                                 .dropout_attention = 0.1,
                                 .dropout_residual = 0.1,
                                 .init_scale = 0.02,
                                 .tied = true,
                                 .stored_prefix = ""};
  const bd_model_options options = {0};
  bd_module *graph, *train;
  assert_int_equal(bd_gpt2_build(ctx, "test", &config, &options, BD_NOWHERE, &graph), BD_OK);
  assert_int_equal(
      bd_pass_run_list(ctx, "canonicalize,cse,dce,autodiff", NULL, stderr, graph, &train), BD_OK);
  return train;
}

static bd_module *make_exec(bd_ctx *ctx, const bd_module *train, const plan_recipe *recipe,
                            bd_plan *plan) {
  bd_module *sharded, *spmd, *exec;
  assert_int_equal(make_plan(ctx, train, recipe, plan), BD_OK);
  assert_int_equal(bd_apply_plan(ctx, train, plan, &sharded), BD_OK);
  assert_int_equal(bd_partition(ctx, sharded, &spmd), BD_OK);
  assert_int_equal(bd_lower_exec(ctx, spmd, plan, &exec), BD_OK);
  assert_int_equal(bd_module_verify(ctx, exec), BD_OK);
  return exec;
}

static void emit(bd_ctx *ctx, const bd_module *exec, const bd_plan *plan) {
  assert_int_equal(bd_emit(ctx, exec, plan, 0, NULL, folder), BD_OK);
}

static char *read_back(bd_ctx *ctx, const char *name, size_t *bytes) {
  char *data;
  assert_int_equal(bd_file_read(ctx, bd_path_join(ctx, folder, name), 1 << 24, &data, bytes),
                   BD_OK);
  return data;
}

static size_t stage_bytes(bd_ctx *ctx, int64_t layers) {
  bd_plan plan;
  size_t bytes;
  emit(ctx, make_exec(ctx, make_train(ctx, layers), &one_rank, &plan), &plan);
  (void)read_back(ctx, "stage0.c", &bytes);
  return bytes;
}

static void test_size_does_not_grow_with_depth(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  size_t shallow = stage_bytes(ctx, 3), deep = stage_bytes(ctx, 40);
  // Larger offsets have more digits.
  assert_true(deep < shallow + shallow / 20);
  bd_ctx_destroy(ctx);
}

static void test_names_stay_in_strings(void **state) {
  (void)state;
  static const char hostile[] = "*/ system(\"x\"); /*\n\\\"?\?/\n#error";
  bd_ctx *ctx = bd_ctx_create();
  bd_module *train = make_train(ctx, 2);
  train->name = hostile;
  for (int i = 0; i < train->weight_count; ++i)
    train->weights[i].storage.name = hostile;
  bd_plan plan;
  emit(ctx, make_exec(ctx, train, &one_rank, &plan), &plan);
  static const char *const files[] = {"main.c",   "stage0.c",  "kernels.h",
                                      "Makefile", "kernels.s", "kernels.ll"};
  for (size_t i = 0; i < sizeof files / sizeof files[0]; ++i) {
    size_t bytes;
    const char *text = read_back(ctx, files[i], &bytes);
    assert_null(strstr(text, "system(\""));
    assert_null(strstr(text, "*/ system"));
    assert_null(strstr(text, "#error"));
    assert_null(strstr(text, "?\?/"));
  }
  bd_ctx_destroy(ctx);
}

static void test_same_bytes_twice(void **state) {
  (void)state;
  static const char *const files[] = {"main.c", "stage0.c", "stage1.c", "kernels.s"};
  bd_ctx *ctx = bd_ctx_create();
  char *first[4];
  size_t bytes[4], again;
  for (int round = 0; round < 2; ++round) {
    bd_plan plan;
    emit(ctx, make_exec(ctx, make_train(ctx, 4), &four_ranks, &plan), &plan);
    for (int i = 0; i < 4; ++i) {
      if (round == 0) {
        first[i] = read_back(ctx, files[i], &bytes[i]);
        continue;
      }
      const char *data = read_back(ctx, files[i], &again);
      assert_int_equal(again, bytes[i]);
      assert_memory_equal(data, first[i], again);
    }
  }
  bd_ctx_destroy(ctx);
}

static void test_exec_reads_back(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    bd_ctx *ctx = bd_ctx_create();
    plan_recipe recipe = four_ranks;
    recipe.seed = seed;
    bd_plan plan;
    bd_module *exec = make_exec(ctx, make_train(ctx, 3), &recipe, &plan), *again;
    bd_text one = bd_text_init(ctx->arena), two = bd_text_init(ctx->arena);
    bd_module_print(exec, &one);
    assert_int_equal(bd_module_parse(ctx, "exec.braid", one.data, one.length, &again), BD_OK);
    bd_module_print(again, &two);
    assert_string_equal(one.data, two.data);
    // What was read back emits as well.
    emit(ctx, again, &plan);
    bd_ctx_destroy(ctx);
  }
}

static void test_prediction_is_a_contract(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  bd_module *train = make_train(ctx, 2), *sharded, *spmd, *exec;
  bd_plan plan;
  assert_int_equal(make_plan(ctx, train, &one_rank, &plan), BD_OK);
  assert_int_equal(bd_apply_plan(ctx, train, &plan, &sharded), BD_OK);
  assert_int_equal(bd_partition(ctx, sharded, &spmd), BD_OK);
  bd_memory *memory = &plan.predicted[0].memory;
  assert_int_equal(
      bd_memory_of_stage(ctx, bd_module_clone(ctx, spmd), 0, plan.schedule, 2, "adamw", 0, memory),
      BD_OK);
  assert_int_equal(bd_lower_exec(ctx, spmd, &plan, &exec), BD_OK);
  memory->total_bytes -= 1;
  assert_int_equal(bd_lower_exec(ctx, spmd, &plan, &exec), BD_INTERNAL);
  bd_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_size_does_not_grow_with_depth),
      cmocka_unit_test(test_names_stay_in_strings),
      cmocka_unit_test(test_same_bytes_twice),
      cmocka_unit_test(test_exec_reads_back),
      cmocka_unit_test(test_prediction_is_a_contract),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
