// The full space on small models: never slower than the default space, no plan below its bound,
// the same plan whatever the clock says.
#include "planner/full/bound.h"
#include "planner/full/full.h"
#include "planner/full/stage.h"
#include "planner/told/breakdown.h"
#include "tests/unit/planner/support_session.h"
// cmocka.h wants these first.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
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

// Predicting it anew gives the same seconds and bytes, what they are made of included.
static void check_predictions(session *s, const bd_plan *plan) {
  bd_plan again = *plan;
  assert_int_equal(bd_plan_check(s->ctx, s->train, plan), BD_OK);
  assert_int_equal(bd_plan_check_ranks(s->ctx, &s->cluster, plan), BD_OK);
  assert_int_equal(bd_plan_predict(s->ctx, s->train, &s->cluster, &again), BD_OK);
  assert_int_equal(bd_plan_check_bytes(s->ctx, &s->cluster, 0, &again), BD_OK);
  assert_true(again.step_seconds == plan->step_seconds && again.gap == plan->gap);
  for (int stage = 0; stage < plan->stages; stage++)
    assert_true(again.predicted[stage].memory.total_bytes ==
                plan->predicted[stage].memory.total_bytes);
  assert_int_equal(bd_plan_break_down(s->ctx, s->train, &s->cluster, &again), BD_OK);
  double seconds = 0;
  const bd_stage_details *first = &again.details->stages[0];
  for (int axis = 0; axis < BD_MAX_AXES; axis++)
    for (int kind = 0; kind < BD_TRAFFIC_COUNT; kind++)
      seconds += first->traffic_seconds[kind][axis];
  seconds += first->compute_seconds + first->recompute_seconds;
  const bd_stage_prediction *told = &again.predicted[0];
  assert_true(fabs(seconds / (told->forward_seconds + told->backward_seconds) - 1) < 1e-6);
}

// More groups of devices are no loss, whichever comes first, also under pins.
static void test_never_slower_than_a_group_alone(void **unused) {
  static const char *const mixed[] = {"a100-80gb:1x8+v100:1x4", "v100:1x4+a100-80gb:1x4",
                                      "l40s:1x2+h100:1x4+a100-80gb:1x4"};
  int idle = 0, pinned = 0;
  for (size_t i = 0; i < sizeof mixed / sizeof *mixed; i++) {
    for (int stages = 0; stages <= 2; stages += 2) {
      session s = open_model("gpt2-mini", mixed[i], 8);
      bd_full_group *groups;
      int count;
      s.request.target = "cuda";
      s.request.stages = stages;
      bd_plan plan = search_full(&s), alone;
      bd_full_groups(s.ctx, &s.cluster, 0, &groups, &count);
      for (int g = 0; g < count; g++) {
        session own = s;
        own.cluster = groups[g].cluster;
        if (bd_cluster_devices(&own.cluster) < stages) continue;
        assert_int_equal(
            bd_plan_search_full(own.ctx, own.train, &own.cluster, &own.request, &alone), BD_OK);
        assert_true(plan.step_seconds <= alone.step_seconds * (1 + 1e-6));
        assert_true(plan.bound_seconds <= alone.step_seconds);
        pinned += stages > 0;
      }
      assert_true(!stages || plan.stages == stages);
      check_predictions(&s, &plan);
      idle += bd_plan_ranks(&plan) < bd_cluster_devices(&s.cluster);
      bd_ctx_destroy(s.ctx);
    }
  }
  assert_true(idle > 2 && pinned > 5);
}

// What a program does not use of a mixed cluster changes nothing for it.
static void test_idle_groups_do_not_slow_a_program_down(void **unused) {
  session s = open_session("h100:1x2+v100:1x4+h100:1x2", 8), own = s;
  bd_full_group *groups;
  bd_full_range range;
  bd_plan plan;
  int count;
  s.request.target = own.request.target = "cuda";
  bd_full_groups(s.ctx, &s.cluster, 0, &groups, &count);
  own.cluster = groups[0].cluster;
  assert_int_equal(bd_plan_search(s.ctx, s.train, &own.cluster, &own.request, &plan), BD_OK);
  double seconds = plan.step_seconds;
  for (int g = 0; g < 3; g += 2) {
    bd_plan there = plan;
    bd_full_shift(s.ctx, groups[g].first, &there);
    assert_int_equal(bd_plan_predict(s.ctx, s.train, &s.cluster, &there), BD_OK);
    assert_true(there.step_seconds == seconds);
    assert_true(bd_full_range_of(s.ctx, &s.cluster, &there, &range));
    assert_true(range.first == groups[g].first && range.count == 2);
    assert_true(bd_plan_is_full(&there) == (g > 0) && bd_plan_is_one_program(&there));
    assert_string_equal(bd_full_name_groups(s.ctx, &s.cluster, &there), "h100:1x2");
    assert_true(bd_plan_cap_bytes(&s.cluster, 0, &there) == groups[g].cap_bytes);
    check_predictions(&s, &there);
  }
  // In the middle of a group, and on slower devices as well.
  bd_full_shift(s.ctx, 1, &plan);
  assert_false(bd_full_range_of(s.ctx, &s.cluster, &plan, &range));
  plan.stage_device = NULL;
  bd_full_shift(s.ctx, groups[1].first, &plan);
  assert_true(bd_full_range_of(s.ctx, &s.cluster, &plan, &range));
  assert_int_equal(bd_plan_predict(s.ctx, s.train, &s.cluster, &plan), BD_OK);
  assert_true(plan.step_seconds > seconds);
  bd_ctx_destroy(s.ctx);
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

static const char *printed(session *s, int threads, double limit_seconds) {
  bd_text text = bd_text_init(s->ctx->arena);
  s->request.threads = threads;
  s->request.limit_seconds = limit_seconds;
  bd_plan plan = search_full(s);
  bd_plan_print(&plan, s->train, &text);
  return text.data;
}

// Graphs that are solved, and parts that are bounded, ahead of their turn included.
static void test_neither_clock_nor_threads_change_anything(void **unused) {
  static const struct {
    const char *model, *cluster;
    int64_t batch;
  } cases[] = {{"gpt2-tiny", "a100-80gb:1x1+v100:1x1", 4},
               {"gpt2-mini", "h100:2x4", 16},
               {"gpt2-mini", "rtx-4090:1x4", 12},
               {"llama-tiny", "h100:1x4", 8}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    session s = open_model(cases[i].model, cases[i].cluster, cases[i].batch);
    s.request.target = "cuda";
    const char *alone = printed(&s, 1, 100);
    assert_string_equal(printed(&s, 2, 1000), alone);
    assert_string_equal(printed(&s, 7, 1000), alone);
    bd_ctx_destroy(s.ctx);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_never_slower_than_the_default_space),
      cmocka_unit_test(test_never_slower_than_a_group_alone),
      cmocka_unit_test(test_idle_groups_do_not_slow_a_program_down),
      cmocka_unit_test(test_no_plan_is_below_the_bound),
      cmocka_unit_test(test_no_plan_is_below_the_bound_of_its_cap),
      cmocka_unit_test(test_shared_weights_are_part_of_the_bound),
      cmocka_unit_test(test_other_meshes_receive_all_of_a_value),
      cmocka_unit_test(test_neither_clock_nor_threads_change_anything),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
