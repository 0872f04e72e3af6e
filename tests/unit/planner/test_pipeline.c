// Pipelines by counts against enumeration of every assignment that keeps the order of layers, and
// of every order of forms.
#include "planner/pipeline/construct.h"
#include "tests/unit/planner/support_pipeline.h"
#include "tests/unit/random.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { TRIALS = 240 };

static void check_fastest(bd_ctx *ctx, const bd_pipeline_problem *p, double best) {
  bd_pipeline got;
  assert_int_equal(bd_pipeline_solve(ctx, p, 20, INFINITY, &got), BD_OK);
  assert_int_equal(got.feasible, isfinite(best));
  if (!got.feasible) return;
  check_found(p, &got, best);
  assert_true(got.optimal);
  assert_true(fabs(got.seconds - best) <= 1e-6 * best);
  assert_true(got.bound <= best * (1 + 1e-6));
  // A cutoff below the optimum leaves nothing, one above it changes nothing.
  assert_int_equal(bd_pipeline_solve(ctx, p, 20, best * 0.999, &got), BD_OK);
  assert_false(got.feasible);
  assert_int_equal(bd_pipeline_solve(ctx, p, 20, best * 1.001, &got), BD_OK);
  assert_true(got.feasible && fabs(got.seconds - best) <= 1e-6 * best);
}

// What is constructed keeps its word and comes close.
static double check_construction(bd_ctx *ctx, const bd_pipeline_problem *p, double best) {
  bd_pipeline got;
  bd_pipeline_construct(ctx, p, &got);
  if (!got.feasible) return INFINITY;
  check_found(p, &got, best);
  assert_true(got.seconds >= best * (1 - 1e-9));
  return got.seconds / best;
}

static void check_leanest(bd_ctx *ctx, const bd_pipeline_problem *p, double least) {
  bd_pipeline got;
  bd_pipeline_leanest(ctx, p, &got);
  assert_int_equal(got.feasible, isfinite(least));
  if (!got.feasible) return;
  check_order(p, got.count);
  assert_true(fabs(peak_bytes(p, got.count, got.entry) - least) <= 1e-6 * least);
}

static void test_equals_enumeration(void **unused) {
  (void)unused;
  int tight = 0, impossible = 0, empty = 0, close = 0, feasible = 0;
  for (int trial = 0; trial < TRIALS; trial++) {
    begin_trial(1009u, trial);
    bd_ctx *ctx = bd_ctx_create();
    bd_pipeline_problem p = random_pipeline(ctx);
    pipeline_best loose = enumerate_pipelines(&p);
    check_fastest(ctx, &p, loose.fastest_seconds);
    check_leanest(ctx, &p, loose.leanest_bytes);
    empty += !isfinite(loose.leanest_bytes);
    static const double room[] = {1.0, 1.02, 1.1, 1.3};
    for (int i = 0; i < 4 && isfinite(loose.leanest_bytes); i++) {
      p.cap_bytes = (int64_t)(loose.leanest_bytes * room[i]);
      pipeline_best capped = enumerate_pipelines(&p);
      tight += capped.fastest_seconds > loose.fastest_seconds;
      check_fastest(ctx, &p, capped.fastest_seconds);
      if (!isfinite(capped.fastest_seconds)) continue;
      feasible++;
      close += check_construction(ctx, &p, capped.fastest_seconds) <= 1.1;
    }
    p.cap_bytes = isfinite(loose.leanest_bytes) ? (int64_t)loose.leanest_bytes - 256 : 1;
    check_fastest(ctx, &p, INFINITY);
    impossible++;
    bd_ctx_destroy(ctx);
  }
  assert_true(tight > TRIALS / 4);
  assert_int_equal(impossible, TRIALS);
  assert_in_range(empty, 1, TRIALS / 3);
  assert_true(close > feasible * 6 / 10);
}

// Layers whose stage is given.
static void test_cuts(void **unused) {
  (void)unused;
  int possible = 0, binding = 0;
  for (int trial = 0; trial < TRIALS / 2; trial++) {
    begin_trial(77u, trial);
    bd_ctx *ctx = bd_ctx_create();
    bd_pipeline_problem p = random_pipeline(ctx);
    double open = enumerate_pipelines(&p).fastest_seconds;
    int least[MOST_STAGES], most[MOST_STAGES], layers = 0;
    for (int r = 0; r < p.run_count; r++)
      layers += p.runs[r].calls;
    int layer = (int)random_below((unsigned)layers), stage = (int)random_below((unsigned)p.stages);
    for (int s = 0; s < p.stages; s++) {
      least[s] = s >= stage ? layer + 1 : 0;
      most[s] = s < stage ? layer : layers;
    }
    p.cut_least = least;
    p.cut_most = most;
    pipeline_best cut = enumerate_pipelines(&p);
    check_fastest(ctx, &p, cut.fastest_seconds);
    check_leanest(ctx, &p, cut.leanest_bytes);
    possible += isfinite(cut.fastest_seconds);
    binding += isfinite(cut.fastest_seconds) && cut.fastest_seconds > open * (1 + 1e-9);
    bd_ctx_destroy(ctx);
  }
  assert_true(possible > TRIALS / 4 && binding > TRIALS / 20);
}

// Messages of a second link take three times as long.
static const bd_both_ways *with_slow_link(bd_ctx *ctx, const bd_both_ways *table, int cells) {
  bd_both_ways *both = BD_NEW_ARRAY(ctx->arena, bd_both_ways, 2 * cells);
  for (int i = 0; i < cells; i++) {
    both[i] = table[i];
    both[cells + i] = (bd_both_ways){3 * table[i].forward, 3 * table[i].backward};
  }
  return both;
}

// A part of the synchronization is the update.
static const bd_layer_candidate *with_updates(bd_ctx *ctx, const bd_pipeline_run *run) {
  bd_layer_candidate *list =
      bd_arena_copy(ctx->arena, run->candidates, run->candidate_count, sizeof *list);
  for (int k = 0; k < run->candidate_count; k++)
    for (int zero = 0; zero < 2; zero++)
      list[k].apply_seconds[zero] = list[k].sync_seconds[zero] * (1 + random_below(3)) / 4;
  return list;
}

// One of the stages' links is slow, as between nodes; stages update together.
static void test_links(void **unused) {
  (void)unused;
  int slower = 0, tried = 0;
  for (int trial = 0; trial < TRIALS / 2; trial++) {
    begin_trial(41u, trial);
    bd_ctx *ctx = bd_ctx_create();
    bd_pipeline_problem p = random_pipeline(ctx);
    double near = enumerate_pipelines(&p).fastest_seconds;
    bd_pipeline_run *runs = bd_arena_copy(ctx->arena, p.runs, p.run_count, sizeof *runs);
    int link[MOST_STAGES] = {0}, cells = p.form_count * p.form_count;
    for (int r = 0; r < p.run_count; r++) {
      runs[r].send = with_slow_link(ctx, runs[r].send, cells);
      runs[r].receive = with_slow_link(ctx, runs[r].receive, cells);
      runs[r].candidates = with_updates(ctx, &runs[r]);
    }
    if (p.stages > 1) link[random_below((unsigned)p.stages - 1)] = 1;
    p.runs = runs;
    p.link = link;
    double best = enumerate_pipelines(&p).fastest_seconds;
    check_fastest(ctx, &p, best);
    if (isfinite(best)) check_construction(ctx, &p, best);
    slower += isfinite(best) && best > near * (1 + 1e-9);
    tried += p.stages > 1 && isfinite(best);
    bd_ctx_destroy(ctx);
  }
  assert_true(slower > tried / 2 && slower > TRIALS / 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_equals_enumeration),
                                     cmocka_unit_test(test_cuts), cmocka_unit_test(test_links)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
