// The end of a step, of programs: of a weight that a stage holds and has no gradient of, and what measured ends
// say of rates.
#include "ir/pass.h"
#include "ir/print.h"
#include "planner/planner.h"
#include "planner/step/end.h"
#include "planner/step/end_fit.h"
#include "tests/unit/context.h"
#include "tests/unit/planner/support_session.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

// `v` is only compared with on stage 0, and has its gradient on stage 1.
static const char source[] = "braid graph \"absent\" {\n"
                             "  weight @u : f32[64] stored \"u\" [64] init ones\n"
                             "  weight @v : f32[64] stored \"v\" [64] init ones\n"
                             "  func @choose(%x: f32[B,64], %u: f32[64] weight, %v: f32[64] weight) {\n"
                             "    %y = mul(%x, %u) : f32[B,64]\n"
                             "    %low = lt(%x, %v) : bool[B,64]\n"
                             "    %half = scale(%y) {value=0.5} : f32[B,64]\n"
                             "    %s = select(%low, %y, %half) : f32[B,64]\n"
                             "    return %s\n"
                             "  }\n"
                             "  func @head(%s: f32[B,64], %v: f32[64] weight) {\n"
                             "    %m = mul(%s, %v) : f32[B,64]\n"
                             "    %r = reduce_sum(%m) {rule=\"ab->\"} : f32[]\n"
                             "    return %r\n"
                             "  }\n"
                             "  main(%x: f32[B,64] reals, %u: f32[64] weight, %v: f32[64] weight) {\n"
                             "    %s = call @choose(%x, %u, %v) : f32[B,64]\n"
                             "    %r = call @head(%s, %v) : f32[]\n"
                             "    return %r\n"
                             "  }\n"
                             "}\n";

typedef struct program {
  bd_plan plan;
  bd_module *spmd;
} program;

static program lower(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                     const bd_plan_request *request) {
  program out;
  bd_module *sharded;
  assert_int_equal(bd_plan_search(ctx, train, cluster, request, &out.plan), BD_OK);
  assert_int_equal(bd_apply_plan(ctx, train, &out.plan, &sharded), BD_OK);
  assert_int_equal(bd_partition(ctx, sharded, &out.spmd), BD_OK);
  return out;
}

static bd_step_end end_of_stage(bd_ctx *ctx, const program *p, const bd_cluster *cluster, int stage) {
  bd_cost_model model = {cluster, p->plan.mesh, p->plan.micro_batch};
  bd_layout layout;
  bd_step_end out;
  assert_int_equal(bd_layout_of_stage(ctx, p->spmd, stage, p->plan.schedule, bd_plan_micro_batches(&p->plan),
                                      p->plan.optimizer, p->plan.zero_axes, &layout),
                   BD_OK);
  assert_int_equal(bd_step_end_of_stage(ctx, &model, p->spmd, &layout, p->plan.optimizer, p->plan.zero_axes, &out),
                   BD_OK);
  return out;
}

// The stage clears, sums, measures and updates it as the other one does, and hands sums on to it.
static void test_weight_without_gradient(void **state) {
  bd_ctx *ctx = *state;
  bd_module *graph, *train;
  bd_cluster cluster;
  bd_status status = bd_module_parse(ctx, "absent", source, strlen(source), &graph);
  if (status != BD_OK) bd_diags_print(ctx, stderr, false);
  assert_int_equal(status, BD_OK);
  assert_int_equal(bd_pass_autodiff(ctx, graph, &train), BD_OK);
  assert_int_equal(bd_cluster_load(ctx, "cpu:1x4", &cluster), BD_OK);
  const bd_plan_request request = {.model = "absent",
                                   .target = "cpu",
                                   .optimizer = "adamw",
                                   .precision = BD_F32,
                                   .global_batch = 8,
                                   .limit_seconds = 300,
                                   .stages = 2,
                                   .mesh = {1, {2}},
                                   .micro_batch = 8,
                                   .schedule = -1,
                                   .zero = 0,
                                   .recompute = 0};
  program p = lower(ctx, train, &cluster, &request);
  bd_cost_model model = {&cluster, p.plan.mesh, p.plan.micro_batch};
  double wanted[2] = {0};
  for (int use = 1; use < p.spmd->main->result_count; use++) {
    int weight = p.spmd->gradient_weight[use - 1];
    const bd_value *values = p.spmd->main->values;
    const bd_value *gradient = &values[p.spmd->main->results[use]];
    const bd_value *value = &values[p.spmd->main->params[p.spmd->input_count + weight]];
    bd_weight_end end = bd_step_end_of_weight(&model, "adamw", BD_MASTERS_F32, value, gradient, 0, 0, false);
    wanted[0] += end.each + end.once;
    wanted[1] += weight == 1 ? end.each + end.once : 0;
  }
  assert_true(wanted[0] > wanted[1]);
  for (int stage = 0; stage < 2; stage++) {
    bd_step_end end = end_of_stage(ctx, &p, &cluster, stage);
    assert_true(fabs((end.reduce + end.update) / wanted[stage] - 1) < 1e-12);
  }
  const bd_tie *ties;
  int tie_count;
  bd_step_end_ties(ctx, &model, p.spmd, &ties, &tie_count);
  assert_int_equal(tie_count, 1);
  assert_int_equal(ties[0].weight, 1);
  assert_int_equal(ties[0].from, 0);
  assert_int_equal(ties[0].to, 1);
  assert_true(ties[0].bytes == 64 * 4);
}

// What an end says is what it takes on any cluster: bytes and starts by the rates.
static void test_ends_say_what_they_take(void **unused) {
  (void)unused;
  for (int zero = 0; zero < 2; zero++) {
    session s = open_session("cpu:1x2", 4);
    bd_constraints replicas = {.degree = {[BD_CUT_SAMPLES] = 2}};
    s.request.constraints = &replicas;
    s.request.stages = 1;
    s.request.micro_batch = 4;
    s.request.zero = zero;
    s.request.recompute = 0;
    program p = lower(s.ctx, s.train, &s.cluster, &s.request);
    bd_cost_model model = {&s.cluster, p.plan.mesh, p.plan.micro_batch};
    bd_fit_rows *rows = BD_NEW(s.ctx->arena, bd_fit_rows);
    assert_int_equal(bd_step_end_fit(s.ctx, &model, p.spmd, &p.plan, 0.25, rows), BD_OK);
    assert_int_equal(rows->end_count, 1);
    const bd_fit_end *end = &rows->ends[0];
    assert_true(end->seconds == 0.25 && end->update_bytes > 0 && end->link_bytes > 0 && end->latencies > 0);
    bd_cluster other = s.cluster;
    other.kernel_seconds = 0;
    other.work.update_bytes_per_second = 3e9;
    other.intra = other.inter = (bd_link){.latency_seconds = 2e-5, .bytes_per_second = 7e8};
    bd_step_end took = end_of_stage(s.ctx, &p, &other, 0);
    double told = end->update_bytes / 3e9 + end->latencies * 2e-5 + end->link_bytes / 7e8;
    assert_true(fabs(told / (took.reduce + took.update) - 1) < 1e-9);
    bd_ctx_destroy(s.ctx);
  }
}

// Nor do more ends than there is room for do harm.
static void test_ends_with_ties_say_nothing(void **unused) {
  (void)unused;
  session s = open_session("cpu:1x2", 4);
  s.request.micro_batch = 4;
  s.request.mesh = (bd_mesh){1, {1}};
  s.request.stages = 2;
  program tied = lower(s.ctx, s.train, &s.cluster, &s.request);
  s.request.mesh = (bd_mesh){1, {2}};
  s.request.stages = 1;
  program whole = lower(s.ctx, s.train, &s.cluster, &s.request);
  bd_cost_model one = {&s.cluster, tied.plan.mesh, 4}, two = {&s.cluster, whole.plan.mesh, 4};
  bd_fit_rows *rows = BD_NEW(s.ctx->arena, bd_fit_rows);
  assert_int_equal(bd_step_end_fit(s.ctx, &one, tied.spmd, &tied.plan, 1, rows), BD_OK);
  assert_int_equal(rows->end_count, 0);
  for (int i = 0; i <= BD_FIT_MAX_ENDS; i++)
    assert_int_equal(bd_step_end_fit(s.ctx, &two, whole.spmd, &whole.plan, 1, rows), BD_OK);
  assert_int_equal(rows->end_count, BD_FIT_MAX_ENDS);
  bd_ctx_destroy(s.ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_weight_without_gradient, make_ctx, drop_ctx),
      cmocka_unit_test(test_ends_say_what_they_take),
      cmocka_unit_test(test_ends_with_ties_say_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
