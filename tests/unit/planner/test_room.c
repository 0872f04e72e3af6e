// Enlarging the search space never makes the plan worse: more room, and fewer pins.
#include "tests/unit/planner/support_session.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

// Seconds of the best plan that the request allows; INFINITY: none fits.
static double search(session *s, bd_plan *out) {
  bd_search_outcome outcome;
  assert_int_equal(bd_plan_look(s->ctx, s->train, &s->cluster, &s->request, &outcome), BD_OK);
  if (!outcome.found) return INFINITY;
  *out = outcome.plan;
  assert_true(!s->request.cap_bytes || plan_bytes(out) <= s->request.cap_bytes);
  return out->step_seconds;
}

// With a plan's own choices as pins.
static void check_pins(session *s, const bd_plan *plan) {
  bd_plan other;
  s->request.stages = plan->stages;
  s->request.mesh = plan->mesh;
  s->request.micro_batch = plan->micro_batch;
  for (int recompute = -1; recompute <= 1; recompute++) {
    s->request.recompute = recompute;
    assert_true(search(s, &other) >= plan->step_seconds * (1 - 1e-9));
  }
  s->request.stages = 0;
  s->request.mesh = (bd_mesh){0};
  s->request.micro_batch = 0;
  s->request.recompute = -1;
}

// From a cap that leaves a third of what the fastest plan has beside the least to more than it has.
static void sweep(const char *cluster, int64_t batch, int64_t least) {
  session s = open_session(cluster, batch);
  bd_plan plan;
  double fastest = search(&s, &plan), slower = INFINITY;
  int64_t most = plan_bytes(&plan);
  for (int i = 2; i <= 6; i += 2) {
    s.request.cap_bytes = least + (most - least) * i / 6;
    double seconds = search(&s, &plan);
    assert_true(seconds <= slower * (1 + 1e-9));
    slower = seconds;
    check_pins(&s, &plan);
  }
  assert_true(fabs(slower - fastest) <= 1e-9 * fastest);
  bd_ctx_destroy(s.ctx);
}

static void test_larger_spaces(void **unused) {
  (void)unused;
  sweep("cpu:1x4", 4, 3 << 20);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_larger_spaces),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
