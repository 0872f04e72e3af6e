// Every schedule's order replayed over its stages: it is whole, ends, holds what it says, and takes
// what the formula of a step says when the stages are equal.
#include "planner/step/step.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MAX_STAGES 9

typedef struct replay {
  bd_schedule schedule;
  int stages, chunks, micro_batches;
  bd_stage_seconds seconds; // of every stage
  const bd_stage_pass *passes[MAX_STAGES];
  int count[MAX_STAGES], at[MAX_STAGES];
  double clock[MAX_STAGES];
  double *forward, *backward, *weight; // when it ended, by part of the pipeline and micro-batch; -1
  int tapes[MAX_STAGES], most_tapes[MAX_STAGES], inputs[MAX_STAGES], most_inputs[MAX_STAGES];
} replay;

static double *new_ends(bd_ctx *ctx, const replay *r) {
  int count = r->stages * r->chunks * r->micro_batches;
  double *ends = BD_NEW_ARRAY(ctx->arena, double, count);
  for (int i = 0; i < count; i++)
    ends[i] = -1;
  return ends;
}

static replay new_replay(bd_ctx *ctx, bd_schedule schedule, int stages, int chunks,
                         int micro_batches) {
  replay r = {
      .schedule = schedule, .stages = stages, .chunks = chunks, .micro_batches = micro_batches};
  r.forward = new_ends(ctx, &r);
  r.backward = new_ends(ctx, &r);
  r.weight = new_ends(ctx, &r);
  for (int s = 0; s < stages; s++)
    assert_int_equal(bd_schedule_order(ctx, schedule, s, stages, chunks, micro_batches,
                                       &r.passes[s], &r.count[s]),
                     BD_OK);
  return r;
}

static void hold(int *now, int *most) {
  if (++*now > *most) *most = *now;
}

// Runs a pass when what it needs is there. Each pass runs once and after those of its own stage.
static bool run(replay *r, int stage, bd_stage_pass pass) {
  bool split = r->schedule == BD_SCHEDULE_ZERO_BUBBLE;
  int part = pass.chunk * r->stages + stage, last = r->stages * r->chunks - 1;
  int at = part * r->micro_batches + pass.micro_batch;
  double *end = r->forward, ready = 0, seconds = r->seconds.forward;
  if (pass.kind == BD_PASS_FORWARD) {
    if (part > 0) ready = r->forward[at - r->micro_batches];
  } else if (pass.kind == BD_PASS_BACKWARD) {
    assert_true(r->forward[at] >= 0);
    if (part < last) ready = r->backward[at + r->micro_batches];
    end = r->backward;
    seconds = r->seconds.backward - r->seconds.weight;
  } else {
    assert_true(split && r->backward[at] >= 0);
    end = r->weight;
    seconds = r->seconds.weight;
  }
  if (ready < 0) return false;
  assert_true(end[at] < 0);
  r->clock[stage] = fmax(r->clock[stage], ready) + seconds / r->chunks;
  end[at] = r->clock[stage];
  if (pass.kind == BD_PASS_FORWARD) hold(&r->tapes[stage], &r->most_tapes[stage]);
  if (pass.kind == BD_PASS_BACKWARD && split) hold(&r->inputs[stage], &r->most_inputs[stage]);
  if (pass.kind == BD_PASS_WEIGHT) r->inputs[stage]--;
  if (pass.kind == (split ? BD_PASS_WEIGHT : BD_PASS_BACKWARD)) r->tapes[stage]--;
  return true;
}

// Seconds until the last pass. Stages that wait for each other in a circle fail.
static double run_all(replay *r) {
  int left = 0;
  for (int s = 0; s < r->stages; s++)
    left += r->count[s];
  assert_int_equal(left, (r->schedule == BD_SCHEDULE_ZERO_BUBBLE ? 3 : 2) * r->stages * r->chunks *
                             r->micro_batches);
  for (bool moved = true; moved;) {
    moved = false;
    for (int s = 0; s < r->stages; s++)
      for (; r->at[s] < r->count[s] && run(r, s, r->passes[s][r->at[s]]); left--, r->at[s]++)
        moved = true;
  }
  assert_int_equal(left, 0);
  double end = 0;
  for (int s = 0; s < r->stages; s++)
    end = fmax(end, r->clock[s]);
  return end;
}

static void check(bd_ctx *ctx, replay *r) {
  double seconds = run_all(r);
  bd_stage_seconds equal[MAX_STAGES];
  for (int s = 0; s < r->stages; s++) {
    bd_schedule_hold held =
        bd_schedule_held(r->schedule, s, r->stages, r->chunks, r->micro_batches);
    assert_int_equal(held.tapes, r->most_tapes[s]);
    assert_int_equal(held.weight_inputs, r->most_inputs[s]);
    assert_int_equal(r->tapes[s], 0);
    equal[s] = r->seconds;
    equal[s].sync = s;
  }
  double formula = bd_step_seconds(r->schedule, r->stages, r->chunks, r->micro_batches, equal);
  assert_true(fabs(seconds + r->stages - 1 - formula) < 1e-9 * formula);
  bd_arena_reset(ctx->arena);
}

static void test_orders(void **state) {
  (void)state;
  static const double seconds[][3] = {{1, 2, 1},     {1, 2.5, 1}, {2, 2, 1.5},
                                      {1, 0.9, 0.2}, {1, 4, 2},   {0.3, 2.3, 2}};
  bd_ctx *ctx = bd_ctx_create();
  int combinations = 0;
  for (int schedule = 0; schedule < BD_SCHEDULE_COUNT; schedule++)
    for (int p = 1; p <= MAX_STAGES; p++)
      for (int v = 1; v <= 4; v++)
        for (int m = 1; m <= 29; m++) {
          if (!bd_schedule_allows((bd_schedule)schedule, p, v, m)) continue;
          replay r = new_replay(ctx, (bd_schedule)schedule, p, v, m);
          const double *of = seconds[combinations++ % 6];
          r.seconds = (bd_stage_seconds){.forward = of[0], .backward = of[1]};
          if (schedule == BD_SCHEDULE_ZERO_BUBBLE) r.seconds.weight = of[2];
          check(ctx, &r);
        }
  assert_true(combinations > 1000);
  bd_ctx_destroy(ctx);
}

// The orders as the papers draw them.
static void test_drawn(void **state) {
  (void)state;
  static const bd_stage_pass interleaved[] = {
      {0, 0, 0}, {0, 0, 1}, {0, 1, 0}, {0, 1, 1}, {0, 0, 2}, {1, 1, 0}, {0, 0, 3}, {1, 1, 1},
      {0, 1, 2}, {1, 0, 0}, {0, 1, 3}, {1, 0, 1}, {1, 1, 2}, {1, 1, 3}, {1, 0, 2}, {1, 0, 3}};
  static const bd_stage_pass split[] = {{0, 0, 0}, {1, 0, 0}, {0, 0, 1}, {1, 0, 1}, {2, 0, 0},
                                        {0, 0, 2}, {1, 0, 2}, {2, 0, 1}, {2, 0, 2}};
  bd_ctx *ctx = bd_ctx_create();
  const bd_stage_pass *passes;
  int count;
  assert_int_equal(bd_schedule_order(ctx, BD_SCHEDULE_INTERLEAVED, 0, 2, 2, 4, &passes, &count),
                   BD_OK);
  assert_int_equal(count, 16);
  assert_memory_equal(passes, interleaved, sizeof interleaved);
  assert_int_equal(bd_schedule_order(ctx, BD_SCHEDULE_ZERO_BUBBLE, 1, 2, 1, 3, &passes, &count),
                   BD_OK);
  assert_int_equal(count, 9);
  assert_memory_equal(passes, split, sizeof split);
  bd_ctx_destroy(ctx);
}

static void test_limits(void **state) {
  (void)state;
  assert_true(bd_schedule_emitted(BD_SCHEDULE_GPIPE) && bd_schedule_emitted(BD_SCHEDULE_1F1B));
  assert_false(bd_schedule_emitted(BD_SCHEDULE_INTERLEAVED));
  assert_false(bd_schedule_emitted(BD_SCHEDULE_ZERO_BUBBLE));
  assert_false(bd_schedule_allows(BD_SCHEDULE_1F1B, 2, 2, 4));
  assert_false(bd_schedule_allows(BD_SCHEDULE_INTERLEAVED, 4, 2, 6));
  bd_ctx *ctx = bd_ctx_create();
  const bd_stage_pass *passes;
  int count;
  assert_int_equal(bd_schedule_order(ctx, BD_SCHEDULE_GPIPE, 0, 1, 1, 1 << 30, &passes, &count),
                   BD_EXHAUSTED);
  bd_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_orders),
      cmocka_unit_test(test_drawn),
      cmocka_unit_test(test_limits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
