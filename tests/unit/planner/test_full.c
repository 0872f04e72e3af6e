// The full space on small models: never slower than the default space, no plan below its bound,
// the same plan whatever the clock says.
#include "planner/full/bound.h"
#include "planner/full/full.h"
#include "planner/told/breakdown.h"
#include "tests/unit/planner/support_session.h"
// cmocka.h wants these first.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

static const char *const clusters[] = {"cpu:1x2", "a100-80gb:1x1+v100:1x1"};
enum { CLUSTERS = sizeof clusters / sizeof *clusters };

static session open_on(int cluster) {
  session s = open_session(clusters[cluster], 4);
  if (s.cluster.gpu) s.request.target = "cuda";
  return s;
}

static bd_plan search_full(session *s) {
  bd_plan plan;
  s->request.full = true;
  assert_int_equal(bd_plan_search_full(s->ctx, s->train, &s->cluster, &s->request, &plan), BD_OK);
  return plan;
}

static void test_never_slower_than_the_default_space(void **unused) {
  for (int i = 0; i < CLUSTERS; i++) {
    session s = open_on(i);
    bd_plan plain;
    assert_int_equal(bd_plan_search(s.ctx, s.train, &s.cluster, &s.request, &plain), BD_OK);
    bd_plan full = search_full(&s);
    assert_true(full.step_seconds <= plain.step_seconds);
    bd_ctx_destroy(s.ctx);
  }
}

// Plans under all kinds of pins against the bound of the whole space.
static void test_no_plan_is_below_the_bound(void **unused) {
  for (int i = 0; i < CLUSTERS; i++) {
    session s = open_on(i);
    bd_module targeted = *s.train;
    bd_full_space space;
    bd_full_bounds bound, hasty;
    int plans = 0;
    targeted.cuda = s.cluster.gpu;
    s.request.full = true;
    bd_plan_request open = s.request;
    bd_full_space_open(s.ctx, &targeted, &s.cluster, &open, NULL, &space);
    assert_int_equal(bd_full_bound(s.ctx, &space, 1e9, BD_NO_DEADLINE, &bound), BD_OK);
    const bd_deadline passed = {bd_clock_seconds() - 1, NULL};
    assert_int_equal(bd_full_bound(s.ctx, &space, 1e9, passed, &hasty), BD_OK);
    assert_true(hasty.seconds > 0 && hasty.seconds <= bound.seconds);
    for (int schedule = 0; schedule < BD_SCHEDULE_COUNT; schedule++)
      for (int stages = 1; stages <= 2; stages++) {
        bd_plan plan;
        s.request.schedule = schedule;
        s.request.micro_batch = 2;
        s.request.stages = stages;
        if (bd_plan_search_full(s.ctx, s.train, &s.cluster, &s.request, &plan) != BD_OK) continue;
        // A mesh over several kinds of devices is priced by the slowest.
        assert_true(plan.step_seconds >= bound.seconds * (1 - 1e-9));
        plans++;
      }
    assert_true(bound.seconds > 0 && plans > 3);
    bd_ctx_destroy(s.ctx);
  }
}

// Under every cap the best plans of every schedule, number of stages and micro-batch against the
// bound of that cap.
static void test_no_plan_is_below_the_bound_of_its_cap(void **unused) {
  int plans = 0, raised = 0;
  double before = 0;
  int64_t most = 0;
  for (int cap = 0; cap < 6; cap++) {
    session s = open_on(0);
    bd_full_space space;
    bd_full_bounds bound;
    s.request.global_batch = 8;
    s.request.full = true;
    s.request.cap_bytes = cap ? most * (100 - 8 * cap) / 100 : 0;
    bd_plan_request open = s.request;
    bd_full_space_open(s.ctx, s.train, &s.cluster, &open, NULL, &space);
    assert_int_equal(bd_full_bound(s.ctx, &space, 1e9, BD_NO_DEADLINE, &bound), BD_OK);
    assert_true(bound.seconds >= before);
    raised += bound.seconds > before && cap > 0;
    before = bound.seconds;
    for (int pinned = 0; pinned < BD_SCHEDULE_COUNT * 2 * 2; pinned++) {
      bd_plan plan;
      s.request.schedule = pinned % BD_SCHEDULE_COUNT;
      s.request.stages = 1 + pinned / BD_SCHEDULE_COUNT % 2;
      s.request.micro_batch = 1 + pinned / BD_SCHEDULE_COUNT / 2;
      if (bd_plan_search_full(s.ctx, s.train, &s.cluster, &s.request, &plan) != BD_OK) continue;
      assert_true(plan.step_seconds >= bound.seconds * (1 - 1e-9));
      if (!cap && plan_bytes(&plan) > most) most = plan_bytes(&plan);
      plans++;
    }
    bd_ctx_destroy(s.ctx);
  }
  assert_true(plans > 20 && raised > 0);
}

// Where the default space has a bound of its own, weights that the ends of a pipeline share count
// with what they take at a step's end: that raises the bound, and no full plan is below it.
static void test_shared_weights_are_part_of_the_bound(void **unused) {
  int plans = 0;
  for (int stages = 2; stages <= 3; stages++) {
    session s = open_model("gpt2-124m", "rtx-4090:3x1", 8);
    bd_full_space space, apart;
    bd_full_bounds bound, without;
    bd_plan near;
    s.request.target = "cuda";
    assert_int_equal(bd_plan_search(s.ctx, s.train, &s.cluster, &s.request, &near), BD_OK);
    bd_module targeted = *s.train;
    targeted.cuda = true;
    s.request.full = true;
    s.request.stages = stages;
    s.request.micro_batch = 2;
    bd_plan_request open = s.request;
    bd_full_space_open(s.ctx, &targeted, &s.cluster, &open, &near, &space);
    bd_full_space_open(s.ctx, &targeted, &s.cluster, &open, NULL, &apart);
    assert_int_equal(bd_full_bound(s.ctx, &space, 1e9, BD_NO_DEADLINE, &bound), BD_OK);
    assert_int_equal(bd_full_bound(s.ctx, &apart, 1e9, BD_NO_DEADLINE, &without), BD_OK);
    assert_true(bound.seconds > without.seconds);
    for (int schedule = 0; schedule < BD_SCHEDULE_COUNT; schedule++) {
      bd_plan plan;
      s.request.schedule = schedule;
      if (bd_plan_search_full(s.ctx, s.train, &s.cluster, &s.request, &plan) != BD_OK) continue;
      if (!bd_plan_is_full(&plan)) continue;
      assert_true(plan.step_seconds >= bound.seconds * (1 - 1e-9));
      plans++;
    }
    bd_ctx_destroy(s.ctx);
  }
  assert_true(plans > 2);
}

static double receive_seconds(const bd_plan *plan, int stage) {
  return plan->details->stages[stage].traffic_seconds[BD_TRAFFIC_RECEIVE][0];
}

// What bounds charge a stage for a neighbour of another mesh is what programs take.
static void test_other_meshes_receive_all_of_a_value(void **unused) {
  static const char *const names[] = {"cpu:1x4", "h100:2x4", "rtx-4090:4x1"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    session s = open_session(names[i], 4);
    if (s.cluster.gpu) s.request.target = "cuda";
    bd_full_space space;
    bd_plan plan;
    int half = bd_cluster_devices(&s.cluster) / 2;
    bd_mesh meshes[] = {{1, {half}}, {1, {1}}};
    s.request.stages = 2;
    s.request.micro_batch = 2;
    s.request.mesh = meshes[0];
    assert_int_equal(bd_plan_search(s.ctx, s.train, &s.cluster, &s.request, &plan), BD_OK);
    s.request.mesh = (bd_mesh){0};
    bd_full_space_open(s.ctx, s.train, &s.cluster, &s.request, NULL, &space);
    plan.stage_mesh = meshes;
    assert_int_equal(bd_plan_predict(s.ctx, s.train, &s.cluster, &plan), BD_OK);
    assert_int_equal(bd_plan_break_down(s.ctx, s.train, &s.cluster, &plan), BD_OK);
    for (int stage = 0; stage < 2; stage++) {
      bd_scene scene = bd_full_scene(&space, 0);
      bd_setting setting = {2, meshes[stage], 2, bd_sharding_replicated()};
      bd_setting_layers layers;
      assert_int_equal(bd_setting_open(s.ctx, &scene, &setting, NULL, &layers), BD_OK);
      bd_moves moves = bd_bound_moves(&scene, &setting, &layers);
      double receives = receive_seconds(&plan, stage);
      assert_true(moves.whole > 0 && moves.whole <= receives * (1 + 1e-9));
      assert_true(moves.whole >= receives * 0.9);
    }
    bd_ctx_destroy(s.ctx);
  }
}

static void test_the_clock_changes_nothing(void **unused) {
  bd_plan plans[2];
  session s[2];
  for (int i = 0; i < 2; i++) {
    s[i] = open_on(1);
    s[i].request.limit_seconds = i ? 1000 : 100;
    s[i].request.threads = 1 + i;
    plans[i] = search_full(&s[i]);
  }
  bd_text texts[2] = {bd_text_init(s[0].ctx->arena), bd_text_init(s[1].ctx->arena)};
  for (int i = 0; i < 2; i++)
    bd_plan_print(&plans[i], s[i].train, &texts[i]);
  assert_string_equal(texts[0].data, texts[1].data);
  for (int i = 0; i < 2; i++)
    bd_ctx_destroy(s[i].ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_never_slower_than_the_default_space),
      cmocka_unit_test(test_no_plan_is_below_the_bound),
      cmocka_unit_test(test_no_plan_is_below_the_bound_of_its_cap),
      cmocka_unit_test(test_shared_weights_are_part_of_the_bound),
      cmocka_unit_test(test_other_meshes_receive_all_of_a_value),
      cmocka_unit_test(test_the_clock_changes_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
