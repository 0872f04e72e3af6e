// Rates fitted to seconds that a known cluster would take are that cluster's.
#include "frontend/frontend.h"
#include "ir/fuse.h"
#include "ir/pass.h"
#include "planner/cost/fit.h"
#include "planner/planner.h"
#include "tests/unit/context.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static bd_ctx *ctx;

static int open(void **state) {
  int failed = make_ctx(state);
  ctx = *state;
  return failed;
}

static bd_cluster nominal(void) {
  bd_cluster out;
  assert_int_equal(bd_cluster_load(ctx, "cpu:1x2", &out), BD_OK);
  out.kernel_seconds = 1e-7;
  return out;
}

// Every kind of op takes seconds of its own; traffic never counts.
static bd_cluster truth(void) {
  bd_cluster out = nominal();
  out.flops = (bd_flops){31e9, 31e9, 31e9, 31e9};
  out.memory_bytes_per_second = 1e18;
  out.kernel_seconds = 0;
  out.work.product_edge = 4;
  out.work.product_depth = 16;
  out.work.attention_forward = 0.3;
  out.work.attention_backward = 0.4;
  out.work.update_bytes_per_second = 7e9;
  out.intra = out.inter = (bd_link){.latency_seconds = 3e-6, .bytes_per_second = 2e9};
  for (int kind = 0; kind < BD_OP_KIND_COUNT; kind++)
    out.work.point_seconds[kind] = 1e-10 * (1 + kind % 7);
  return out;
}

static bd_module *lowered(const char *model, const bd_cluster *cluster, int stages, bd_plan *plan) {
  bd_model_options options = {.sequence = 16};
  bd_module *graph, *train, *sharded, *spmd;
  const char *target = cluster->gpu ? "cuda" : "cpu";
  bd_dtype precision = cluster->gpu ? BD_BF16 : BD_F32;
  assert_int_equal(bd_model_load(ctx, model, &options, &graph), BD_OK);
  assert_int_equal(bd_pass_run_list(ctx, "canonicalize,cse,dce", NULL, NULL, graph, &graph), BD_OK);
  assert_int_equal(
      bd_pass_run_list(
          ctx, bd_training_passes(precision, BD_MASTERS_F32, BD_GRADIENTS_F32, target), NULL, NULL,
          graph, &train),
      BD_OK);
  bd_plan_request request = {.model = model,
                             .target = target,
                             .precision = precision,
                             .optimizer = "adamw",
                             .global_batch = 4,
                             .sequence = 16,
                             .limit_seconds = 1e6,
                             .stages = stages,
                             .mesh = {1, {2 / stages}},
                             .micro_batch = 4 / stages,
                             .schedule = -1,
                             .recompute = 0};
  assert_int_equal(bd_plan_search(ctx, train, cluster, &request, plan), BD_OK);
  assert_int_equal(bd_apply_plan(ctx, train, plan, &sharded), BD_OK);
  assert_int_equal(bd_partition(ctx, sharded, &spmd), BD_OK);
  return spmd;
}

static bd_fit_row rows[4096];

static void add_rows(const bd_module *spmd, const bd_cluster *cluster, const bd_plan *plan,
                     bd_fit_rows *out) {
  bd_cost_model model = {cluster, plan->mesh, plan->micro_batch};
  for (int i = 0; i < spmd->function_count; i++) {
    const bd_function *f = spmd->functions[i];
    bd_fusion fusion;
    bd_fuse(ctx, spmd, f, &fusion);
    for (int step = 0; step < fusion.step_count; step++) {
      bd_fit_row *row = &rows[out->row_count++];
      assert_true(out->row_count < 4096);
      *row = (bd_fit_row){spmd, f, fusion.first_op[step], fusion.step_ops[step], model, 0, 0};
      assert_int_equal(bd_cost_step(ctx, &model, spmd, f, &fusion, step, &row->seconds), BD_OK);
      row->weight = 10 * row->seconds;
    }
  }
}

static void near(double found, double wanted, double tolerance) {
  if (fabs(found / wanted - 1) > tolerance)
    fail_msg("%g is not within %g of %g", found, tolerance, wanted);
}

static void test_finds_what_it_was(void **unused) {
  (void)unused;
  static const char *const models[] = {"gpt2-tiny", "llama-tiny", "gpt2-tiny-25h"};
  bd_cluster real = truth(), start = nominal(), found;
  bd_fit_rows measured = {.rows = rows,
                          .least_seconds = 2e-7,
                          .end_count = 2,
                          .ends = {{7e6, 0, 0, 1e-3}, {7e6, 2, 4e6, 1e-3 + 6e-6 + 2e-3}}};
  bd_module *spmd[6];
  bd_plan plan[6];
  for (int m = 0; m < 6; m++) {
    spmd[m] = lowered(models[m / 2], &start, 1 + m % 2, &plan[m]);
    add_rows(spmd[m], &real, &plan[m], &measured);
  }
  assert_int_equal(bd_fit_rates(ctx, &measured, &start, &found), BD_OK);
  near(found.flops.f32, real.flops.f32, 0.01);
  near(found.work.attention_forward, real.work.attention_forward, 0.02);
  near(found.work.attention_backward, real.work.attention_backward, 0.02);
  near(found.work.update_bytes_per_second, real.work.update_bytes_per_second, 1e-9);
  near(found.intra.bytes_per_second, real.intra.bytes_per_second, 0.05);
  assert_true(found.kernel_seconds == 2e-7);
  static const bd_op_kind kinds[] = {BD_OP_LAYERNORM, BD_OP_EMBED, BD_OP_LSE, BD_OP_ROPE};
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
    near(found.work.point_seconds[kinds[k]], real.work.point_seconds[kinds[k]], 0.01);
  // What was not measured stays as it was.
  assert_true(found.work.point_seconds[BD_OP_MAXPOOL] == 0);
  for (int m = 0; m < 6; m++) {
    bd_cost_model a = {&real, plan[m].mesh, plan[m].micro_batch}, b = a;
    b.cluster = &found;
    for (int i = 0; i < spmd[m]->function_count; i++) {
      double wanted, got;
      assert_int_equal(bd_cost_function(ctx, &a, spmd[m], spmd[m]->functions[i], &wanted), BD_OK);
      assert_int_equal(bd_cost_function(ctx, &b, spmd[m], spmd[m]->functions[i], &got), BD_OK);
      if (wanted > 1e-5) near(got, wanted, 0.15);
    }
  }
}

// Twice as slow in one thing, thrice in another: the same of each kind of work alone.
static void test_scales_each_kind(void **unused) {
  (void)unused;
  bd_cluster start, real, found;
  assert_int_equal(bd_cluster_load(ctx, "h100:1x2", &start), BD_OK);
  start.kernel_seconds = 0;
  real = start;
  real.flops.bf16 /= 2;
  real.flops.f32 /= 2;
  real.work.attention_forward = 0.2;
  real.work.attention_backward = 0.1;
  real.memory_bytes_per_second /= 3;
  real.intra.latency_seconds *= 1.5;
  real.intra.bytes_per_second /= 1.5;
  real.node.switch_sum = start.node.switch_sum;
  bd_fit_rows measured = {.rows = rows, .end_count = 1, .ends = {{7e9, 0, 0, 1e-3}}};
  for (int stages = 1; stages <= 2; stages++) {
    bd_plan *plan = BD_NEW(ctx->arena, bd_plan);
    add_rows(lowered("llama-mini", &start, stages, plan), &real, plan, &measured);
  }
  assert_int_equal(bd_fit_scales(ctx, &measured, &start, &found), BD_OK);
  near(found.flops.bf16, real.flops.bf16, 0.1);
  near(found.memory_bytes_per_second, real.memory_bytes_per_second, 0.05);
  near(found.intra.bytes_per_second, real.intra.bytes_per_second, 0.02);
  near(found.work.update_bytes_per_second, 7e12, 1e-9);
  near(found.inter.bytes_per_second, start.inter.bytes_per_second / 1.5, 0.02); // of one node
  // No rate is moved by more than a factor.
  for (int i = 0; i < measured.row_count; i++)
    measured.rows[i].weight *= 1000, measured.rows[i].seconds *= 1000;
  measured.ends[0].seconds *= 1000;
  assert_int_equal(bd_fit_scales(ctx, &measured, &start, &found), BD_OK);
  near(found.flops.bf16, start.flops.bf16 / BD_FIT_MOST_SCALE, 1e-9);
  near(found.work.update_bytes_per_second, start.memory_bytes_per_second / BD_FIT_MOST_SCALE, 1e-9);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_finds_what_it_was, open, drop_ctx),
      cmocka_unit_test_setup_teardown(test_scales_each_kind, open, drop_ctx)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
