// What the plan that tuning keeps says of its bound: that of the last search, or none.
#include "cli/tune.h"
#include "tests/unit/context.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static bd_tuning tuning; // too large for a stack

// One whose open choice was searched by the last of two rates, and has a bound of 2 seconds.
static bd_tuning *searched(void) {
  tuning = (bd_tuning){.rates = 2, .measured_count = 3};
  tuning.choices[0] = (bd_choice){.open = true, .found = true, .rates = 2};
  tuning.choices[0].plan = (bd_plan){.bound_seconds = 2, .search = "whole space searched"};
  return &tuning;
}

static bd_plan bound_of(bd_ctx *ctx, const bd_tuning *t, bool parts, double step_seconds) {
  bd_plan plan = {.step_seconds = step_seconds, .bound_seconds = 7, .gap = 7};
  bd_tune_bound(ctx, t, &(bd_measurement){.parts = parts}, &plan);
  return plan;
}

static void test_the_last_search_bounds(void **state) {
  bd_plan slower = bound_of(*state, searched(), false, 3), faster = bound_of(*state, searched(), false, 1);
  assert_true(slower.bound_seconds == 2 && slower.gap == 0.5);
  assert_true(faster.bound_seconds == 1 && faster.gap == 0);
  assert_string_equal(slower.search, "the fastest of 3 tried; whole space searched");
}

static void check_none(const bd_plan *plan, const char *why) {
  assert_true(plan->bound_seconds == 0 && plan->gap == 0);
  assert_non_null(strstr(plan->search, "the fastest of 3 tried; "));
  assert_non_null(strstr(plan->search, why));
  assert_non_null(strstr(plan->search, "there is no bound"));
  assert_null(strstr(plan->search, "whole space"));
}

static void test_no_search_bounds(void **state) {
  bd_tuning *t = searched();
  t->choices[0].found = false;
  bd_plan none = bound_of(*state, t, false, 3);
  check_none(&none, "found no plan in its time");
  t = searched();
  t->choices[0].rates = 1;
  bd_plan older = bound_of(*state, t, false, 3);
  check_none(&older, "found no plan in its time");
  bd_plan parts = bound_of(*state, searched(), true, 3);
  check_none(&parts, "products are in parts");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_the_last_search_bounds, make_ctx, drop_ctx),
      cmocka_unit_test_setup_teardown(test_no_search_bounds, make_ctx, drop_ctx),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
