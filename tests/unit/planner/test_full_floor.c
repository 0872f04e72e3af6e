// What no pipeline beats, against every pipeline of small instances, run pass by pass.
#include "planner/full/floor.h"
#include "planner/step/step.h"
#include "tests/unit/random.h"
// cmocka.h wants these first.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

enum { TRIALS = 10000, MOST_RUNS = 3, MOST_SIZES = 5, MOST_LAYERS = 6, MOST_GROUPS = 2 };

typedef struct instance {
  int runs, sizes, groups, layers, micro_batches, chunks;
  bd_schedule schedule;
  int calls[MOST_RUNS], devices[MOST_GROUPS], run_of[MOST_LAYERS];
  bd_floor_size size[MOST_SIZES];
  bd_stage_seconds seconds[MOST_RUNS][MOST_SIZES];
  bool possible[MOST_RUNS][MOST_SIZES];
  double handing[MOST_SIZES]; // of all messages of a stage
} instance;

static void make_instance(instance *in) {
  static const int chunks[] = {2, 3};
  memset(in, 0, sizeof *in);
  in->schedule = (bd_schedule)random_below(BD_SCHEDULE_COUNT);
  in->chunks = in->schedule == BD_SCHEDULE_INTERLEAVED ? chunks[random_below(2)] : 1;
  in->micro_batches = 1 + (int)random_below(8);
  in->groups = 1 + (int)random_below(MOST_GROUPS);
  for (int g = 0; g < in->groups; g++)
    in->devices[g] = 1 + (int)random_below(4);
  in->sizes = 1 + (int)random_below(MOST_SIZES);
  for (int i = 0; i < in->sizes; i++) {
    int g = (int)random_below((unsigned)in->groups);
    in->size[i] = (bd_floor_size){g, 1 + (int)random_below((unsigned)in->devices[g])};
    in->handing[i] = random_below(3) ? 0 : 0.3 * (1 + random_below(4));
  }
  in->runs = 1 + (int)random_below(MOST_RUNS);
  for (int r = 0; r < in->runs; r++) {
    in->calls[r] = 1 + (int)random_below(2);
    for (int i = 0; i < in->calls[r]; i++)
      in->run_of[in->layers++] = r;
    for (int i = 0; i < in->sizes; i++) {
      double scale = (0.5 + random_below(10)) / in->size[i].devices;
      double forward = scale * (1 + random_below(4)), backward = scale * (1 + random_below(8));
      double sync = scale * random_below(4);
      in->seconds[r][i] = (bd_stage_seconds){forward, backward, backward * random_below(10) / 10,
                                             sync, sync * random_below(4) / 3};
      in->possible[r][i] = random_below(10) > 0;
    }
  }
}

// One pipeline: stages and their sizes so far.
typedef struct trial {
  const instance *in;
  bd_ctx *ctx;
  int stages, size[MOST_LAYERS], part[MOST_LAYERS];
  double best;
} trial;

static void measure(trial *t) {
  const instance *in = t->in;
  bd_stage_seconds stage[MOST_LAYERS] = {{0}};
  double seconds;
  for (int l = 0; l < in->layers; l++) {
    int s = t->part[l] % t->stages, size = t->size[s], run = in->run_of[l];
    if (!in->possible[run][size]) return;
    stage[s].forward += in->seconds[run][size].forward;
    stage[s].backward += in->seconds[run][size].backward;
    if (in->schedule == BD_SCHEDULE_ZERO_BUBBLE) stage[s].weight += in->seconds[run][size].weight;
    stage[s].sync += in->seconds[run][size].sync;
    stage[s].apply += in->seconds[run][size].apply;
  }
  for (int s = 0; s < t->stages; s++) {
    stage[s].forward += in->handing[t->size[s]] / 2;
    stage[s].backward += in->handing[t->size[s]] / 2;
  }
  assert_int_equal(bd_step_ordered_seconds(t->ctx, in->schedule, t->stages, in->chunks,
                                           in->micro_batches, stage, &seconds),
                   BD_OK);
  if (seconds < t->best) t->best = seconds;
}

static void try_parts(trial *t, int layer, int part) {
  int parts = t->stages * t->in->chunks;
  if (layer == t->in->layers) {
    if (part == parts - 1) measure(t);
    return;
  }
  for (int next = layer ? part : 0; next <= (layer ? part + 1 : 0) && next < parts; next++) {
    t->part[layer] = next;
    try_parts(t, layer + 1, next);
  }
}

static void try_sizes(trial *t, int stage) {
  const instance *in = t->in;
  if (stage == t->stages) {
    try_parts(t, 0, 0);
    return;
  }
  for (int i = 0; i < in->sizes; i++) {
    int used = in->size[i].devices;
    for (int s = 0; s < stage; s++)
      if (in->size[t->size[s]].group == in->size[i].group) used += in->size[t->size[s]].devices;
    if (used > in->devices[in->size[i].group]) continue;
    t->size[stage] = i;
    try_sizes(t, stage + 1);
  }
}

static double floor_of(const instance *in, bd_ctx *ctx, double limit, bool roughly) {
  double seconds[MOST_RUNS * MOST_SIZES], passing[MOST_RUNS * MOST_SIZES];
  bool used[MOST_SIZES];
  for (int r = 0; r < in->runs; r++)
    for (int i = 0; i < in->sizes; i++) {
      const bd_stage_seconds *of = &in->seconds[r][i];
      double both = of->forward + of->backward;
      seconds[r * in->sizes + i] =
          in->possible[r][i] ? both + of->sync / in->micro_batches : INFINITY;
      passing[r * in->sizes + i] =
          in->schedule == BD_SCHEDULE_ZERO_BUBBLE ? of->forward : both / in->chunks;
    }
  bd_floor numbers = {.run_count = in->runs,
                      .group_count = in->groups,
                      .size_count = in->sizes,
                      .micro_batches = in->micro_batches,
                      .most_stages = in->layers / in->chunks,
                      .calls = in->calls,
                      .group_devices = in->devices,
                      .sizes = in->size,
                      .seconds = seconds,
                      .handing = in->handing,
                      .limit = limit,
                      .passing = passing,
                      .rounds = 2,
                      .roughly = roughly};
  return bd_floor_seconds(ctx, &numbers, used);
}

static void test_no_pipeline_is_faster(void **unused) {
  static instance in;
  int compared = 0;
  double ratios = 0;
  for (int i = 0; i < TRIALS; i++) {
    random_begin((uint64_t)i * 0x9e3779b97f4a7c15u);
    make_instance(&in);
    bd_ctx *ctx = bd_ctx_create();
    trial t = {.in = &in, .ctx = ctx, .best = INFINITY};
    for (t.stages = 1; t.stages * in.chunks <= in.layers; t.stages++)
      if (bd_schedule_allows(in.schedule, t.stages, in.chunks, in.micro_batches)) try_sizes(&t, 0);
    if (isfinite(t.best)) {
      double limit = t.best * (1 + random_below(30) / 100.0);
      double bound = floor_of(&in, ctx, limit, false), rough = floor_of(&in, ctx, limit, true);
      assert_true(bound <= t.best * (1 + 1e-9));
      assert_true(rough > 0 && rough <= t.best * (1 + 1e-9));
      ratios += bound / t.best;
      compared++;
    }
    bd_ctx_destroy(ctx);
  }
  assert_true(compared > TRIALS / 2);
  // It is no trivial bound.
  assert_true(ratios > 0.7 * compared);
}

// One size, no messages: what a line of equal stages takes, but for half of its bubble.
static void test_equal_stages(void **unused) {
  bd_ctx *ctx = bd_ctx_create();
  int calls = 4, devices = 4;
  bd_floor_size size = {0, 1};
  double seconds = 3, passing = 3, handing = 0;
  bool used;
  bd_floor numbers = {1,     1,        1,        8,   4,        &calls, &devices,
                      &size, &seconds, &handing, 1e9, &passing, 2,      false};
  // h: 1/8 of a stage's slack, a quarter of which the next one lacks.
  double most = (1 - pow(1 - 1.0 / 8, 4)) * 8 / 8;
  assert_true(fabs(bd_floor_seconds(ctx, &numbers, &used) - 12 / most) <= 1e-9);
  assert_true(used);
  bd_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_no_pipeline_is_faster),
      cmocka_unit_test(test_equal_stages),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
