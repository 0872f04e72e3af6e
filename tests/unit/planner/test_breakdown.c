// What a plan's seconds are made of adds up to what is predicted, whatever the plan; and what a
// person asks of a search is kept and never makes a plan faster.
#include "frontend/frontend.h"
#include "ir/pass.h"
#include "planner/constraints/read.h"
#include "planner/full/full.h"
#include "planner/told/breakdown.h"
#include "planner/told/familiar.h"
#include "tests/unit/planner/support_session.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

// Searches with pins and forbids; the former may be NULL.
static bd_plan search(session *s, const char *pins, const char *forbids) {
  bd_plan plan;
  bd_plan_request request = s->request;
  bd_constraints *constraints = BD_NEW(s->ctx->arena, bd_constraints);
  if (pins) assert_int_equal(bd_pins_read(s->ctx, pins, &request, constraints), BD_OK);
  if (forbids) assert_int_equal(bd_forbids_read(s->ctx, forbids, &request, constraints), BD_OK);
  assert_int_equal(bd_plan_search(s->ctx, s->train, &s->cluster, &request, &plan), BD_OK);
  assert_int_equal(bd_plan_check(s->ctx, s->train, &plan), BD_OK);
  assert_int_equal(bd_plan_note(s->ctx, s->train, &plan), BD_OK);
  return plan;
}

static void assert_near(double a, double b) {
  assert_true(fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b)));
}

static void check_sums(session *s, bd_plan *plan) {
  assert_int_equal(bd_plan_break_down(s->ctx, s->train, &s->cluster, plan), BD_OK);
  for (int stage = 0; stage < plan->stages; stage++) {
    const bd_stage_details *d = &plan->details->stages[stage];
    const bd_stage_prediction *p = &plan->predicted[stage];
    double passes = d->compute_seconds, sync = d->update_seconds, sends = 0;
    for (int axis = 0; axis < BD_MAX_AXES; axis++) {
      sync += d->sync_seconds[axis];
      for (int kind = 0; kind < BD_TRAFFIC_COUNT; kind++)
        passes += d->traffic_seconds[kind][axis];
      sends += d->traffic_seconds[BD_TRAFFIC_SEND][axis];
      sends += d->traffic_seconds[BD_TRAFFIC_RECEIVE][axis];
    }
    assert_near(passes, p->forward_seconds + p->backward_seconds);
    assert_near(sync, p->sync_seconds);
    assert_near(sends, p->send_seconds);
    assert_true(d->recompute_seconds <= d->compute_seconds && d->recompute_flops <= d->flops);
    assert_true((d->recompute_bytes > 0) == (d->recompute_flops > 0));
  }
}

// A stage of ZeRO that is forbidden is in no plan, alone and together with others.
static void test_forbidden_zero(void **unused) {
  (void)unused;
  static const struct {
    const char *forbids;
    bool states, gradients, weights; // whether any lie in parts
  } cases[] = {{"zero=1,zero>1", false, false, false},
               {"zero<1,zero>1", true, false, false},
               {"zero<2,zero=3", true, true, false},
               {"zero<3", true, false, true},
               {"zero=1,zero=2,mb<4", false, false, false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    session s = open_session("cpu:1x4", 8);
    bd_plan plan = search(&s, "dp=4,pp=1", cases[i].forbids);
    check_sums(&s, &plan);
    assert_int_equal(plan.zero_axes != 0, cases[i].states);
    assert_int_equal(plan.details->gradient_parts > 0, cases[i].gradients);
    assert_int_equal(plan.details->gathered > 0, cases[i].weights);
    bd_ctx_destroy(s.ctx);
  }
}

static void test_sums(void **unused) {
  (void)unused;
  static const char *const pins[] = {"pp=1,dp=4",
                                     "pp=2,tp=2",
                                     "pp=1,dp=2,tp=2,zero=3",
                                     "pp=4",
                                     "pp=2,recompute=full,schedule=gpipe",
                                     "sp=2,dp=2,zero=2"};
  session s = open_session("cpu:1x4", 8);
  double flops = 0;
  for (size_t i = 0; i < sizeof pins / sizeof *pins; i++) {
    bd_plan plan = search(&s, pins[i], NULL);
    check_sums(&s, &plan);
    // The model's work is the same under any plan.
    if (i == 0) flops = plan.details->model_flops;
    assert_near(plan.details->model_flops, flops);
  }
  assert_true(flops > 0);
  bd_ctx_destroy(s.ctx);
}

// Bytes under all names are those of the segments they lie in, for what is kept always; and no more
// than those of the workspace.
static void check_live(session *s, bd_plan *plan) {
  assert_int_equal(bd_plan_break_down(s->ctx, s->train, &s->cluster, plan), BD_OK);
  for (int stage = 0; stage < plan->stages; stage++) {
    const bd_stage_details *d = &plan->details->stages[stage];
    const int64_t *told = plan->predicted[stage].memory.bytes;
    int64_t sum[BD_SEGMENT_COUNT] = {0};
    for (int i = 0; i < d->live_count; i++)
      sum[d->live[i].segment] += d->live[i].bytes;
    assert_true(sum[BD_SEGMENT_TAPE] > 0);
    assert_int_equal(sum[BD_SEGMENT_TAPE], told[BD_SEGMENT_TAPE]);
    assert_int_equal(sum[BD_SEGMENT_WEIGHTS], told[BD_SEGMENT_WEIGHTS] +
                                                  told[BD_SEGMENT_GRADIENTS] +
                                                  told[BD_SEGMENT_OPTIMIZER]);
    assert_true(sum[BD_SEGMENT_BOUNDARY] <= told[BD_SEGMENT_BOUNDARY]);
    assert_true(sum[BD_SEGMENT_WORKSPACE] > 0);
    assert_true(sum[BD_SEGMENT_WORKSPACE] <= told[BD_SEGMENT_WORKSPACE]);
  }
}

// So they are for plans that are not emitted.
static void test_live_full(void **unused) {
  (void)unused;
  static const char *const pins[] = {"pp=2,dp=2,mb=2,schedule=zero-bubble",
                                     "pp=2,dp=2,mb=2,schedule=interleaved"};
  for (size_t i = 0; i < sizeof pins / sizeof *pins; i++) {
    session s = open_session("cpu:1x4", 8);
    bd_plan plan;
    bd_plan_request request = s.request;
    bd_constraints *constraints = BD_NEW(s.ctx->arena, bd_constraints);
    request.full = true;
    assert_int_equal(bd_pins_read(s.ctx, pins[i], &request, constraints), BD_OK);
    assert_int_equal(bd_plan_search_full(s.ctx, s.train, &s.cluster, &request, &plan), BD_OK);
    assert_int_equal(plan.stages, 2);
    check_live(&s, &plan);
    bd_ctx_destroy(s.ctx);
  }
}

static void test_live(void **unused) {
  (void)unused;
  session s = open_session("cpu:1x2", 8);
  bd_plan plan = search(&s, "pp=1,dp=2,recompute=none", NULL);
  check_sums(&s, &plan);
  check_live(&s, &plan);
  int64_t largest = INT64_MAX;
  assert_true(plan.details->stages[0].live_count > 4);
  for (int i = 0; i < plan.details->stages[0].live_count; i++) {
    const bd_tenant *tenant = &plan.details->stages[0].live[i];
    assert_true(tenant->bytes > 0 && tenant->bytes <= largest && tenant->count > 0);
    assert_true(tenant->bytes <= plan.predicted[0].memory.total_bytes);
    largest = tenant->bytes;
  }
  bd_ctx_destroy(s.ctx);
}

// Whether every op keeps to these kinds of cuts along an axis, and some op makes the one that is
// wanted; BD_CUT_COUNT: whichever.
static bool cuts_only(const bd_plan *plan, int axis, unsigned kinds, bd_cut wanted) {
  bool some = wanted == BD_CUT_COUNT;
  for (int k = 0; k < plan->strategy_count; k++)
    for (int i = 0; i < plan->strategies[k].op_count; i++) {
      unsigned cut = plan->strategies[k].cut[i][axis];
      if (!(kinds >> cut & 1u)) return false;
      some = some || cut == wanted;
    }
  return some;
}

static void test_degrees(void **unused) {
  (void)unused;
  session s = open_session("cpu:1x8", 8);
  bd_plan open = search(&s, NULL, NULL), plan = search(&s, "pp=1,dp=2,sp=2,tp=2", NULL);
  assert_int_equal(plan.mesh.axes, 3);
  assert_true(plan.step_seconds >= open.step_seconds && plan.micro_batch % 2 == 0);
  unsigned none = 1u << BD_CUT_NONE, tokens = 1u << BD_CUT_TOKENS;
  assert_true(cuts_only(&plan, 0, none | 1u << BD_CUT_SAMPLES, BD_CUT_SAMPLES));
  assert_true(cuts_only(&plan, 1, none | tokens, BD_CUT_TOKENS));
  assert_true(cuts_only(&plan, 2, none | tokens | 1u << BD_CUT_FEATURES, BD_CUT_FEATURES));
  plan = search(&s, "pp=2", "tp>1,sp>1");
  assert_true(plan.step_seconds >= open.step_seconds);
  for (int axis = 0; axis < plan.mesh.axes; axis++) // along the others ranks may do the same
    assert_true(cuts_only(&plan, axis, none | 1u << BD_CUT_SAMPLES,
                          axis ? BD_CUT_COUNT : BD_CUT_SAMPLES));
  plan = search(&s, NULL, "pp<2,pp>4,mb=8");
  assert_true(plan.stages >= 2 && plan.stages <= 4 && plan.micro_batch != 8);
  bd_ctx_destroy(s.ctx);
}

// Familiar choices cost what a search with their pins finds.
static void test_familiar(void **unused) {
  (void)unused;
  session s = open_session("cpu:1x4", 8);
  bd_plan plan = search(&s, NULL, NULL);
  check_sums(&s, &plan);
  bd_familiar_list list;
  assert_int_equal(bd_plan_compare_familiar(s.ctx, s.train, &s.cluster, &s.request, &plan, &list),
                   BD_OK);
  assert_true(list.count >= 6);
  for (int i = 0; i < list.count; i++) {
    const bd_familiar *one = &list.items[i];
    assert_null(one->reason);
    bd_plan forced = search(&s, one->pins, NULL);
    assert_near(one->step_seconds, forced.step_seconds);
    assert_true(one->step_seconds >= plan.step_seconds * (1 - 1e-9));
  }
  bd_ctx_destroy(s.ctx);
}

// A plan that a familiar choice beats becomes that choice, under the same bound.
static void test_familiar_is_faster(void **unused) {
  (void)unused;
  session s = open_session("cpu:1x4", 8);
  bd_plan plan = search(&s, NULL, NULL), found = plan;
  found.step_seconds *= 10;
  bd_familiar_list list;
  plan = found;
  assert_int_equal(bd_plan_compare_familiar(s.ctx, s.train, &s.cluster, &s.request, &plan, &list),
                   BD_OK);
  double least = INFINITY;
  for (int i = 0; i < list.count; i++)
    least = fmin(least, list.items[i].step_seconds);
  assert_near(plan.step_seconds, least);
  assert_near(plan.bound_seconds, found.bound_seconds);
  assert_near(plan.gap, plan.step_seconds / found.bound_seconds - 1);
  bool moved = plan.stages != found.stages || !bd_mesh_same(&plan.mesh, &found.mesh);
  int replaced = 0;
  for (int i = 0; i < plan.alternative_count; i++)
    replaced += plan.alternatives[i].step_seconds == found.step_seconds;
  assert_int_equal(replaced, moved);
  // Pinned to other stages, it stays.
  s.request.stages = 4;
  bd_plan pinned = search(&s, NULL, NULL);
  pinned.step_seconds *= 10;
  assert_int_equal(bd_plan_compare_familiar(s.ctx, s.train, &s.cluster, &s.request, &pinned, &list),
                   BD_OK);
  assert_int_equal(pinned.stages, 4);
  bd_ctx_destroy(s.ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_familiar_is_faster), cmocka_unit_test(test_sums),
      cmocka_unit_test(test_forbidden_zero),     cmocka_unit_test(test_live),
      cmocka_unit_test(test_live_full),          cmocka_unit_test(test_degrees),
      cmocka_unit_test(test_familiar),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
