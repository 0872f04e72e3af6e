// Bounds and plans of one setting of a layer graph, with little effort and with much, against the
// best of all plans of it.
#include "planner/graph/construct.h"
#include "planner/graph/interleave.h"
#include "planner/graph/sketch.h"
#include "tests/unit/planner/support_layers.h"
#include "tests/unit/random.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static bool keeps_caps(const instance *in, const bd_layers_plan *plan,
                       const bd_layers_stage *stages) {
  for (int s = 0; s < plan->stages; s++)
    if (stages[s].bytes > bd_layers_mode_cap(&in->problem, plan->mode[s])) return false;
  return true;
}

// Another option of one layer alone makes no plan that was touched up shorter. How many became so?
static int touched_up_shorter;

static void check_touch_up(const instance *in, const trial *t, bd_ctx *ctx,
                           const bd_layers_setting *setting, bd_layers_outcome outcome) {
  bd_layers_stage stages[BD_LAYERS_MAX_STAGES];
  bd_layers_meter meter = {.deadline = BD_NO_DEADLINE};
  bd_layers_effort effort = {.meter = &meter, .most_work = INT64_MAX};
  bd_layers_plan *plan = &outcome.plan;
  double before = outcome.seconds;
  bd_layers_touch_up(ctx, setting, &effort, plan, &outcome.seconds);
  double measured = bd_layers_measure(&in->problem, plan, stages);
  assert_true(fabs(measured - outcome.seconds) <= 1e-9 * measured);
  assert_true(measured <= before && measured >= t->best * (1 - 1e-9));
  assert_true(keeps_caps(in, plan, stages));
  touched_up_shorter += measured < before;
  for (int i = 0; i < in->problem.layer_count; i++) {
    int own = plan->option[i];
    for (int k = 0; k < in->problem.layers[i].option_count; k++) {
      plan->option[i] = k;
      double other = bd_layers_measure(&in->problem, plan, stages);
      if (keeps_caps(in, plan, stages)) assert_true(other >= measured * (1 - 1e-9));
    }
    plan->option[i] = own;
  }
}

// What is constructed is a plan within the caps, and the setting's bound is one.
static void check_construction(const instance *in, const trial *t, bd_ctx *ctx,
                               const bd_layers_setting *setting) {
  bd_layers_stage stages[BD_LAYERS_MAX_STAGES];
  bd_layers_outcome outcome;
  bd_layers_construct(ctx, setting, INFINITY, &outcome);
  assert_true(outcome.bound <= t->best * (1 + 1e-12));
  if (!outcome.found) return;
  double measured = bd_layers_measure(&in->problem, &outcome.plan, stages);
  assert_true(fabs(measured - outcome.seconds) <= 1e-9 * measured);
  assert_true(measured >= t->best * (1 - 1e-9));
  assert_true(keeps_caps(in, &outcome.plan, stages));
  check_touch_up(in, t, ctx, setting, outcome);
}

// Of settings that have plans: whose sketch is within 2 % of the best, and its bound within 10 %.
typedef struct sketch_tally {
  int count, found, close;
} sketch_tally;

// No bound is above the best plan; what is found costs what it is said to, and keeps to the caps.
static void check_outcome(const instance *in, const trial *t, const bd_layers_outcome *outcome) {
  bd_layers_stage stages[BD_LAYERS_MAX_STAGES];
  if (isfinite(t->best)) assert_true(outcome->bound <= t->best * (1 + 1e-12));
  if (!outcome->found) return;
  assert_true(outcome->seconds >= t->best * (1 - 1e-9));
  double measured = bd_layers_measure(&in->problem, &outcome->plan, stages);
  assert_true(fabs(measured - outcome->seconds) <= 1e-9 * measured);
  assert_true(keeps_caps(in, &outcome->plan, stages));
}

// One setting with hardly any effort, now and then with less work than it takes.
static void check_setting(const instance *in, trial *t, bool thorough) {
  bd_ctx *ctx = bd_ctx_create();
  bd_layers_setting setting;
  bool possible;
  layers_try_modes(t, 0);
  bd_layers_setting_open(ctx, &in->problem, (bd_schedule)t->schedule, t->p, t->v, t->m, &setting,
                         &possible);
  if (!possible) assert_true(isinf(t->best));
  if (possible) check_construction(in, t, ctx, &setting);
  for (int labels = 1; possible && labels <= 4; labels++) {
    bd_layers_meter meter = {.deadline = BD_NO_DEADLINE};
    bd_layers_effort effort = {labels, labels, &meter, labels == 4 ? 50 : INT64_MAX, thorough};
    double cutoff = labels % 2 || isinf(t->best) ? INFINITY : 1.1 * t->best;
    for (int bound_only = 0; bound_only < 2; bound_only++) {
      bd_layers_outcome outcome;
      meter.used = 0;
      bd_status status =
          t->v > 1 ? bd_layers_interleave(ctx, &setting, &effort, cutoff, &outcome)
                   : bd_layers_chain(ctx, &setting, &effort, cutoff, bound_only, &outcome);
      assert_int_equal(status, BD_OK);
      check_outcome(in, t, &outcome);
    }
  }
  bd_ctx_destroy(ctx);
}

// With much effort, bounds and plans of a setting meet, whatever was looked for before.
static void check_thorough(const instance *in, trial *t, sketch_tally *tally) {
  bd_ctx *ctx = bd_ctx_create();
  bd_layers_setting setting;
  bd_layers_outcome outcome;
  bd_layers_meter meter = {.deadline = BD_NO_DEADLINE};
  bd_layers_effort effort = {1 << 10, 1 << 10, &meter, INT64_MAX, true};
  bool possible;
  bd_layers_setting_open(ctx, &in->problem, (bd_schedule)t->schedule, t->p, t->v, t->m, &setting,
                         &possible);
  if (possible && t->v == 1) {
    bd_layers_sketch(ctx, &setting, &effort, INFINITY, &outcome);
    check_outcome(in, t, &outcome);
    if (isfinite(t->best)) {
      tally->count++;
      tally->found += outcome.found && outcome.seconds <= 1.02 * t->best;
      tally->close += outcome.bound >= 0.9 * t->best;
    }
    // The windows leave all plans that are better.
    double cutoff = isfinite(t->best) ? t->best * (1 + 1e-6) : INFINITY;
    assert_int_equal(bd_layers_chain(ctx, &setting, &effort, cutoff, false, &outcome), BD_OK);
    assert_int_equal(outcome.found, isfinite(t->best));
    check_outcome(in, t, &outcome);
    if (outcome.found) assert_true(outcome.seconds <= t->best * (1 + 1e-9));
  }
  bd_ctx_destroy(ctx);
}

static void test_bounds_hold_with_little_effort(void **unused) {
  static instance in;
  sketch_tally tally = {0};
  for (int i = 0; i < LAYERS_TRIALS; i++) {
    random_begin((uint64_t)(i + LAYERS_TRIALS) * 0x9e3779b97f4a7c15u);
    layers_make_instance(&in);
    trial t = {.in = &in, .best = INFINITY, .lacking = INT64_MAX};
    t.schedule = i % BD_SCHEDULE_COUNT;
    t.p = 1 + (int)random_below((unsigned)in.problem.max_stages);
    t.m = in.micro_batches[0];
    t.v = 1;
    if (t.schedule == BD_SCHEDULE_INTERLEAVED && t.p > 1) {
      t.v = 2;
      t.m = t.p * (1 + (int)random_below(3));
    }
    check_setting(&in, &t, i % 8 == 0);
    if (i % 8 < 2) check_thorough(&in, &t, &tally);
  }
  assert_in_range(tally.count, LAYERS_TRIALS / 20, LAYERS_TRIALS);
  assert_in_range(tally.found, tally.count * 9 / 10, tally.count);
  assert_in_range(tally.close, tally.count * 9 / 10, tally.count);
  assert_true(touched_up_shorter > LAYERS_TRIALS / 100);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_bounds_hold_with_little_effort)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
