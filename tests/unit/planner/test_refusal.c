// What a search that finds no plan says that a plan needs: under that cap there is one, under a
// byte less there is none, it does not depend on the cap that was asked for, and pins need no less.
#include "frontend/frontend.h"
#include "ir/pass.h"
#include "planner/least.h"
#include "planner/planner.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

typedef struct model {
  bd_ctx *ctx;
  bd_module *train;
  bd_cluster cluster;
  bd_plan_request request;
} model;

static model open_model(const char *name, const char *cluster, const char *target) {
  model m = {.ctx = bd_ctx_create()};
  bd_model_options options = {0};
  bd_module *graph;
  assert_int_equal(bd_model_load(m.ctx, name, &options, &graph), BD_OK);
  assert_int_equal(bd_pass_autodiff(m.ctx, graph, &m.train), BD_OK);
  assert_int_equal(bd_cluster_load(m.ctx, cluster, &m.cluster), BD_OK);
  m.request = (bd_plan_request){.model = name,
                                .target = target,
                                .optimizer = "adamw",
                                .precision = BD_F32,
                                .global_batch = 8,
                                .limit_seconds = 600,
                                .schedule = -1,
                                .zero = -1,
                                .recompute = -1};
  return m;
}

// The bytes that the leanest plan needs, as a search under the cap tells; 0: there is a plan.
static int64_t need(model *m, int64_t cap_bytes) {
  bd_search_outcome outcome;
  m->request.cap_bytes = cap_bytes;
  assert_int_equal(bd_plan_look(m->ctx, m->train, &m->cluster, &m->request, &outcome), BD_OK);
  assert_false(outcome.cut);
  return outcome.found ? 0 : cap_bytes + outcome.lacking_bytes;
}

static int64_t check_border(model *m) {
  int64_t least = need(m, 1);
  assert_true(least > 1);
  assert_int_equal(need(m, least), 0);
  assert_int_equal(need(m, least - 1), least);
  assert_int_equal(need(m, least - least / 32), least);
  return least;
}

// With skips and without, on stages whose makers of skipping values are full.
static void test_border(void **unused) {
  (void)unused;
  static const struct {
    const char *name, *cluster, *target;
    int stages;
    int64_t micro_batch;
  } of[] = {{"unet3d-tiny", "cpu:1x4", "cpu", 4, 8},   {"unet3d-tiny", "cpu:1x4", "cpu", 2, 1},
            {"unet3d-tiny", "h100:1x4", "cuda", 4, 4}, {"resnet-tiny", "cpu:1x2", "cpu", 2, 0},
            {"gpt2-tiny", "cpu:1x4", "cpu", 2, 2},     {"llama-tiny", "h100:1x4", "cuda", 4, 0}};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    model m = open_model(of[i].name, of[i].cluster, of[i].target);
    m.request.stages = of[i].stages;
    m.request.micro_batch = of[i].micro_batch;
    check_border(&m);
    bd_ctx_destroy(m.ctx);
  }
}

// What weights may also lie in parts for is no reason to hold more.
static void test_more_choices_need_no_more(void **unused) {
  (void)unused;
  static const char *const names[] = {"unet3d-tiny", "gpt2-tiny"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    model m = open_model(names[i], "cpu:1x4", "cpu");
    m.request.stages = 2;
    m.request.micro_batch = 1;
    int64_t open = need(&m, 1);
    for (m.request.zero = 0; m.request.zero <= 3; m.request.zero++)
      assert_true(open <= need(&m, 1));
    bd_ctx_destroy(m.ctx);
  }
}

// Plans hold more than their pipelines tell, which is learned, and other ones where that is in
// vain: stages of several kinds, tight, come to a plan under every cap, and to no slower one with
// room.
static void test_every_cap_above_has_a_plan(void **unused) {
  (void)unused;
  enum { CAPS = 6 };
  model m = open_model("unet3d-tiny", "cpu:1x4", "cpu");
  m.request.stages = 4;
  m.request.micro_batch = 4;
  int64_t least = need(&m, 1);
  double slower = INFINITY;
  for (int i = 0; i < CAPS; i++) {
    bd_search_outcome outcome;
    m.request.cap_bytes = least + least * i / CAPS;
    assert_int_equal(bd_plan_look(m.ctx, m.train, &m.cluster, &m.request, &outcome), BD_OK);
    assert_true(outcome.found);
    assert_true(outcome.plan.step_seconds <= slower);
    slower = outcome.plan.step_seconds;
  }
  bd_ctx_destroy(m.ctx);
}

// Weights, their gradients and states alone are what they are, and no plan holds less.
static void test_states_alone(void **unused) {
  (void)unused;
  static const struct {
    const char *optimizer;
    int bytes; // of an element: itself, its gradient and f32 numbers of state
  } of[] = {{"sgd", 8}, {"momentum", 12}, {"adamw", 16}, {"adafactor", 8}};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    model m = open_model("gpt2-tiny", "cpu:1x4", "cpu");
    m.request.optimizer = of[i].optimizer;
    double elements = 0;
    for (int w = 0; w < m.train->weight_count; w++)
      elements += (double)bd_type_elements(&m.train->weights[w].type, 1);
    double least = bd_least_bytes(m.train, &m.request);
    assert_true(least == elements * of[i].bytes);
    assert_true(4 * (double)need(&m, 1) >= least);
    m.request.cap_bytes = (int64_t)least / 4 - 1;
    assert_false(bd_least_fits(m.train, &m.cluster, &m.request));
    m.request.cap_bytes = (int64_t)least / 4 + 1;
    assert_true(bd_least_fits(m.train, &m.cluster, &m.request));
    bd_ctx_destroy(m.ctx);
  }
}

// A look for any plan finds one where there is room, none where there is not, and then tells of one
// that does not fit.
static void test_any(void **unused) {
  (void)unused;
  static const char *const names[] = {"gpt2-tiny", "llama-tiny", "unet3d-tiny"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    model m = open_model(names[i], "cpu:1x4", "cpu");
    int64_t least = need(&m, 1);
    m.request.any = true;
    assert_int_equal(need(&m, least + least / 4), 0);
    assert_true(need(&m, least - 1) >= least);
    assert_true(need(&m, least / 2) >= least);
    assert_true(need(&m, 1) >= least);
    bd_ctx_destroy(m.ctx);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_border),
                                     cmocka_unit_test(test_more_choices_need_no_more),
                                     cmocka_unit_test(test_every_cap_above_has_a_plan),
                                     cmocka_unit_test(test_states_alone),
                                     cmocka_unit_test(test_any)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
