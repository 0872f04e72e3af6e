// Searches of a part of all pipelines against enumeration of every one: labels, the core of many
// candidates, and stages filled anew.
#include "planner/pipeline/construct.h"
#include "planner/pipeline/core.h"
#include "planner/pipeline/label.h"
#include "planner/pipeline/refill.h"
#include "planner/pipeline/shift.h"
#include "tests/unit/planner/support_pipeline.h"
#include "tests/unit/random.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { TRIALS = 240, PADDING = 80 };

// The best of all without a cap; every other problem is left with `room` times the least bytes.
static pipeline_best cap_some(bd_pipeline_problem *p, double room) {
  pipeline_best open = enumerate_pipelines(p);
  if (random_below(2) && isfinite(open.leanest_bytes))
    p->cap_bytes = (int64_t)(room * open.leanest_bytes);
  return open;
}

// Labels alone come to the best nearly always, whatever is known before.
static void test_labels(void **unused) {
  (void)unused;
  int best = 0, feasible = 0, tight = 0;
  for (int trial = 0; trial < TRIALS / 2; trial++) {
    begin_trial(2027u, trial);
    bd_ctx *ctx = bd_ctx_create();
    bd_pipeline_problem p = random_pipeline(ctx);
    pipeline_best open = cap_some(&p, 1.1);
    double fastest = enumerate_pipelines(&p).fastest_seconds;
    bd_pipeline got = {.seconds = INFINITY};
    bd_pipeline_label(ctx, &p, INFINITY, NULL, &got);
    if (got.feasible) {
      check_found(&p, &got, fastest);
      assert_true(got.seconds >= fastest * (1 - 1e-9));
      bd_pipeline none = {.seconds = INFINITY};
      bd_pipeline_label(ctx, &p, fastest * 0.999, NULL, &none);
      assert_false(none.feasible);
    }
    feasible += isfinite(fastest);
    best += isfinite(fastest) && got.seconds <= fastest * (1 + 1e-9);
    tight += isfinite(fastest) && fastest > open.fastest_seconds * (1 + 1e-9);
    bd_ctx_destroy(ctx);
  }
  assert_true(best * 100 >= feasible * 95);
  assert_true(tight > TRIALS / 40);
}

// The problem among so many candidates that are of no use that only its core is solved.
static bd_pipeline_problem padded(bd_ctx *ctx, const bd_pipeline_problem *problem) {
  bd_pipeline_problem p = *problem;
  bd_pipeline_run *runs = bd_arena_copy(ctx->arena, p.runs, p.run_count, sizeof *runs);
  for (int r = 0; r < p.run_count; r++) {
    int own = runs[r].candidate_count, count = own + PADDING;
    bd_layer_candidate *list = BD_NEW_ARRAY(ctx->arena, bd_layer_candidate, count);
    for (int k = 0; k < count; k++) {
      list[k] = runs[r].candidates[k < PADDING ? k % own : k - PADDING];
      if (k >= PADDING) continue;
      list[k].forward_seconds *= 11 + k;
      list[k].backward_seconds *= 11 + k;
      list[k].tape_bytes += BD_ALIGNMENT;
    }
    runs[r].candidates = list;
    runs[r].candidate_count = count;
  }
  p.runs = runs;
  return p;
}

static void test_core(void **unused) {
  (void)unused;
  int solved = 0, tight = 0, cores = 0, gained = 0;
  for (int trial = 0; trial < TRIALS / 8; trial++) {
    begin_trial(5u, trial);
    bd_ctx *ctx = bd_ctx_create();
    bd_pipeline_problem p = random_pipeline(ctx);
    pipeline_best open = cap_some(&p, 1.02);
    double best = enumerate_pipelines(&p).fastest_seconds;
    bd_pipeline_problem wide = padded(ctx, &p);
    bd_pipeline got;
    assert_int_equal(bd_pipeline_solve(ctx, &wide, 20, INFINITY, &got), BD_OK);
    assert_int_equal(got.feasible, isfinite(best));
    if (got.feasible) {
      check_found(&wide, &got, best);
      assert_true(fabs(got.seconds - best) <= 1e-6 * best);
      assert_true(got.bound <= best * (1 + 1e-6));
      bd_pipeline rough;
      bd_pipeline_core core;
      bd_pipeline_estimate(ctx, &wide, &rough);
      cores += bd_pipeline_find_core(ctx, &wide, &rough, rough.price, 180, &core);
      gained += got.seconds < rough.seconds * (1 - 1e-9);
      solved++;
      tight += best > open.fastest_seconds;
    }
    bd_ctx_destroy(ctx);
  }
  assert_true(solved > TRIALS / 12 && tight > TRIALS / 80);
  assert_true(cores > TRIALS / 80 && gained > 0);
}

static void check_same_layers(const bd_pipeline_problem *p, const int *before, const int *after) {
  for (int s = 0; s < p->stages; s++)
    for (int r = 0; r < p->run_count; r++) {
      int more = 0;
      for (int k = 0; k < p->runs[r].candidate_count; k++) {
        int index = bd_pipeline_index(p, s, r, k);
        more += after[index] - before[index];
      }
      assert_int_equal(more, 0);
    }
}

// Refilled stages keep their layers, and never take longer. Returns whether they take less.
static bool check_refill(bd_ctx *ctx, const bd_pipeline_problem *p, double best) {
  bd_pipeline before, after;
  bd_pipeline_construct(ctx, p, &before);
  if (!before.feasible) before.count = NULL;
  after = before;
  bd_pipeline_refill(ctx, p, &after);
  assert_true(after.seconds <= before.seconds);
  if (!isfinite(after.seconds)) return false;
  assert_true(after.seconds >= best * (1 - 1e-9));
  check_found(p, &after, best);
  if (before.count) check_same_layers(p, before.count, after.count);
  assert_int_equal(after.bytes, (int64_t)peak_bytes(p, after.count, after.entry));
  for (int s = 0; s < p->stages; s++)
    assert_true(after.price[s] >= 0);
  return after.seconds < before.seconds;
}

// Boundaries that are moved make no step longer, and some shorter.
static void test_shift(void **unused) {
  (void)unused;
  int several = 0, shorter = 0;
  for (int trial = 0; trial < TRIALS; trial++) {
    begin_trial(77u, trial);
    bd_ctx *ctx = bd_ctx_create();
    bd_pipeline_problem p = random_pipeline(ctx);
    cap_some(&p, 1.1);
    double best = enumerate_pipelines(&p).fastest_seconds;
    bd_pipeline before, after;
    bd_pipeline_construct(ctx, &p, &before);
    if (p.stages > 1 && before.feasible) {
      bd_pipeline_refill(ctx, &p, &before);
      after = before;
      bd_pipeline_shift(ctx, &p, &after);
      assert_true(after.seconds <= before.seconds && after.seconds >= best * (1 - 1e-9));
      check_found(&p, &after, best);
      several++;
      shorter += after.seconds < before.seconds;
    }
    bd_ctx_destroy(ctx);
  }
  assert_true(several > TRIALS / 8 && shorter > several / 40);
}

// From constructions, and of one stage from nothing: what fits is found, and mostly the best of it.
static void test_refill(void **unused) {
  (void)unused;
  int better = 0, alone = 0, exact = 0;
  for (int trial = 0; trial < TRIALS / 2; trial++) {
    begin_trial(901u, trial);
    bd_ctx *ctx = bd_ctx_create();
    bd_pipeline_problem p = random_pipeline(ctx);
    pipeline_best open = enumerate_pipelines(&p);
    static const double room[] = {1.02, 1.1, 1.3};
    for (int i = 0; i < 3 && isfinite(open.leanest_bytes); i++) {
      p.cap_bytes = (int64_t)(room[i] * open.leanest_bytes);
      double best = enumerate_pipelines(&p).fastest_seconds;
      better += check_refill(ctx, &p, best);
      if (p.stages > 1) continue;
      bd_pipeline own = {.seconds = INFINITY};
      bd_pipeline_refill(ctx, &p, &own);
      alone++;
      exact += own.seconds <= best * (1 + 1e-9);
    }
    bd_ctx_destroy(ctx);
  }
  assert_true(better > TRIALS / 40);
  assert_true(alone > TRIALS / 10);
  assert_true(exact * 10 > alone * 9);
}

// What a layer holds little of beside, it needs much room for, as where backward computes all
// again.
static bd_pipeline_problem with_wide_workspaces(bd_ctx *ctx, const bd_pipeline_problem *of) {
  bd_pipeline_problem p = *of;
  bd_pipeline_run *runs = bd_arena_copy(ctx->arena, p.runs, p.run_count, sizeof *runs);
  for (int r = 0; r < p.run_count; r++) {
    bd_layer_candidate *list =
        bd_arena_copy(ctx->arena, runs[r].candidates, runs[r].candidate_count, sizeof *list);
    int64_t most = 0;
    for (int k = 0; k < runs[r].candidate_count; k++)
      if (list[k].tape_bytes > most) most = list[k].tape_bytes;
    for (int k = 0; k < runs[r].candidate_count; k++)
      list[k].workspace_bytes += 6 * (most - list[k].tape_bytes);
    runs[r].candidates = list;
  }
  p.runs = runs;
  return p;
}

// However tight the cap, where anything fits there is something to begin with.
static void test_estimates(void **unused) {
  (void)unused;
  int staged = 0, unconstructed = 0;
  for (int trial = 0; trial < TRIALS / 2; trial++) {
    begin_trial(77u, trial);
    bd_ctx *ctx = bd_ctx_create();
    bd_pipeline_problem plain = random_pipeline(ctx), p = with_wide_workspaces(ctx, &plain);
    pipeline_best open = enumerate_pipelines(&p);
    static const double room[] = {1, 1.02, 1.1};
    for (int i = 0; i < 3 && isfinite(open.leanest_bytes); i++) {
      bd_pipeline built, got;
      p.cap_bytes = (int64_t)ceil(room[i] * open.leanest_bytes);
      bd_pipeline_construct(ctx, &p, &built);
      bd_pipeline_refill(ctx, &p, &built);
      bd_pipeline_estimate(ctx, &p, &got);
      assert_true(got.feasible);
      check_found(&p, &got, got.seconds);
      assert_non_null(got.price);
      staged += p.stages > 1;
      unconstructed += !built.feasible;
    }
    bd_ctx_destroy(ctx);
  }
  assert_true(staged > TRIALS / 4 && unconstructed > 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_labels), cmocka_unit_test(test_core),
                                     cmocka_unit_test(test_shift), cmocka_unit_test(test_refill),
                                     cmocka_unit_test(test_estimates)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
