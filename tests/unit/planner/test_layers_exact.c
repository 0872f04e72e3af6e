// Layer graphs against enumeration of every plan.
#include "planner/graph/lacking.h"
#include "tests/unit/planner/support_layers.h"
#include "tests/unit/random.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

// By how much the fullest stage of a plan exceeds its cap, or 0.
static int64_t excess_of(const instance *in, const bd_layers_plan *plan) {
  bd_layers_stage stages[BD_LAYERS_MAX_STAGES];
  int64_t most = 0;
  assert_true(isfinite(bd_layers_measure(&in->problem, plan, stages)));
  for (int s = 0; s < plan->stages; s++) {
    int64_t over = stages[s].bytes - in->group[in->mode[plan->mode[s]].group].cap_bytes;
    if (over > most) most = over;
  }
  return most;
}

// However little work or time is allowed, what is told holds. Returns whether it was too little.
static bool check_lacking(bd_ctx *ctx, const instance *in, int64_t truth, bd_deadline deadline,
                          int64_t work) {
  bd_layers_answer answer;
  assert_int_equal(bd_layers_find_lacking(ctx, &in->problem, deadline, work, &answer), BD_OK);
  assert_in_range(truth, answer.least_lacking_bytes, answer.lacking_bytes);
  if (answer.lacking_bytes < INT64_MAX)
    assert_int_equal(excess_of(in, &answer.plan), answer.lacking_bytes);
  return answer.least_lacking_bytes < answer.lacking_bytes;
}

// A caller that did not find the plans that there are.
static void check_nothing_lacking(bd_ctx *ctx, const instance *in) {
  bd_layers_answer answer;
  assert_int_equal(bd_layers_find_lacking(ctx, &in->problem, BD_NO_DEADLINE, 1 << 24, &answer),
                   BD_OK);
  assert_true(answer.lacking_bytes <= 1);
  assert_int_equal(excess_of(in, &answer.plan), answer.lacking_bytes);
}

static void check_instance(const instance *in, int *out_found, int *out_cut) {
  bd_ctx *ctx = bd_ctx_create();
  bd_layers_answer answer;
  bd_layers_stage stages[BD_LAYERS_MAX_STAGES];
  trial t = layers_enumerate(in);
  assert_int_equal(bd_layers_solve(ctx, &in->problem, BD_NO_DEADLINE, INFINITY, false, &answer),
                   BD_OK);
  assert_int_equal(answer.found, isfinite(t.best));
  assert_true(answer.proven);
  if (answer.found) {
    *out_found += 1;
    assert_true(fabs(answer.seconds - t.best) <= 1e-9 * t.best);
    assert_true(answer.bound <= t.best * (1 + 1e-12));
    double measured = bd_layers_measure(&in->problem, &answer.plan, stages);
    assert_true(fabs(measured - t.best) <= 1e-9 * t.best);
    assert_int_equal(excess_of(in, &answer.plan), 0);
    check_nothing_lacking(ctx, in);
  } else {
    assert_int_equal(answer.lacking_bytes, t.lacking);
    assert_int_equal(answer.least_lacking_bytes, t.lacking);
    const bd_deadline passed = {.seconds = 0};
    *out_cut += check_lacking(ctx, in, t.lacking, BD_NO_DEADLINE, 64) +
                check_lacking(ctx, in, t.lacking, BD_NO_DEADLINE, 4096) +
                check_lacking(ctx, in, t.lacking, passed, 4096);
  }
  bd_ctx_destroy(ctx);
}

static void test_equals_enumeration(void **unused) {
  static instance in;
  int found = 0, cut = 0;
  for (int i = 0; i < LAYERS_TRIALS; i++) {
    random_begin((uint64_t)i * 0x9e3779b97f4a7c15u);
    layers_make_instance(&in);
    check_instance(&in, &found, &cut);
  }
  // Neither all feasible nor all infeasible.
  assert_in_range(found, LAYERS_TRIALS / 4, LAYERS_TRIALS - LAYERS_TRIALS / 20);
  assert_true(cut > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_equals_enumeration)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
