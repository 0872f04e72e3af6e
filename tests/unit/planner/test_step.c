// The formula of a step against the replay, on random stages that are not alike: stage by stage
// numbers alone, messages that take no time.
#include "planner/simulate/simulate.h"
#include "planner/step/bound.h"
#include "planner/step/path.h"
#include "planner/step/step.h"
#include "tests/unit/random.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_STAGES = 8, MOST_CHUNKS = 4, MOST_MICRO_BATCHES = 32, TRIALS = 20000 };
enum { MOST_MESSAGES = 2 * MOST_STAGES * MOST_CHUNKS };

static double unit(void) {
  return random_below(1u << 20) / (double)(1u << 20);
}

// What bd_step_seconds is given.
typedef struct trial {
  bd_schedule schedule;
  int stages, chunks, micro_batches;
  bd_stage_seconds stage[MOST_STAGES];
} trial;

// Stages differ by up to a factor of `spread`.
static trial make_trial(double spread) {
  trial t = {.schedule = (bd_schedule)random_below(BD_SCHEDULE_COUNT), .chunks = 1};
  t.stages = 2 + (int)random_below(MOST_STAGES - 1);
  t.micro_batches = 1 + (int)random_below(MOST_MICRO_BATCHES);
  if (t.schedule == BD_SCHEDULE_INTERLEAVED) {
    t.chunks = 1 + (int)random_below(MOST_CHUNKS);
    t.micro_batches = t.stages * (1 + (int)random_below((unsigned)(MOST_MICRO_BATCHES / t.stages)));
  }
  double backward = 1 + 2 * unit(), weight = unit();
  for (int s = 0; s < t.stages; s++) {
    bd_stage_seconds *at = &t.stage[s];
    at->forward = pow(spread, unit());
    at->backward = at->forward * backward * pow(1 + (spread - 1) / 4, unit() - 0.5);
    if (t.schedule == BD_SCHEDULE_ZERO_BUBBLE) at->weight = at->backward * weight;
    at->sync = unit();
  }
  return t;
}

// The same as a problem of the replay.
typedef struct made {
  bd_sim_action sync[MOST_STAGES];
  bd_sim_action action[MOST_STAGES][BD_SIM_PASS_KINDS][MOST_CHUNKS][3];
  bd_sim_work work[MOST_STAGES][BD_SIM_PASS_KINDS][MOST_CHUNKS];
  bd_sim_stage stage[MOST_STAGES];
  bd_sim_message messages[MOST_MESSAGES];
  bd_sim_problem problem;
} made;

static void add(made *m, int part, int kind, bd_sim_action action) {
  bd_sim_work *work = &m->work[part % m->problem.stages][kind][part / m->problem.stages];
  work->actions[work->count++] = action;
}

static void add_message(made *m, int part, int kind, bd_sim_kind does, int message) {
  add(m, part, kind, (bd_sim_action){.kind = does, .message = message});
}

// A pass receives, computes and sends: message i goes from part i to the next, message parts - 1 +
// i back to part i.
static void add_part(const trial *t, int part, made *m) {
  const bd_stage_seconds *at = &t->stage[part % t->stages];
  int last = t->stages * t->chunks - 1;
  double seconds[] = {at->forward, at->backward - at->weight, at->weight};
  if (part > 0) add_message(m, part, BD_PASS_FORWARD, BD_SIM_RECEIVE, part - 1);
  if (part < last) add_message(m, part, BD_PASS_BACKWARD, BD_SIM_RECEIVE, last + part);
  for (int kind = 0; kind < BD_SIM_PASS_KINDS; kind++)
    add(m, part, kind,
        (bd_sim_action){.kind = BD_SIM_COMPUTE, .seconds = seconds[kind] / t->chunks});
  if (part < last) add_message(m, part, BD_PASS_FORWARD, BD_SIM_SEND, part);
  if (part > 0) add_message(m, part, BD_PASS_BACKWARD, BD_SIM_SEND, last + part - 1);
}

static void make_problem(const trial *t, made *m) {
  int parts = t->stages * t->chunks;
  memset(m, 0, sizeof *m);
  m->problem = (bd_sim_problem){.schedule = t->schedule,
                                .stages = t->stages,
                                .chunks = t->chunks,
                                .micro_batches = t->micro_batches,
                                .messages = m->messages,
                                .stage = m->stage};
  for (int s = 0; s < t->stages; s++) {
    m->sync[s] = (bd_sim_action){.kind = BD_SIM_COMPUTE, .seconds = t->stage[s].sync};
    m->stage[s].ranks = 1;
    m->stage[s].reduce = (bd_sim_work){1, &m->sync[s]};
    for (int kind = 0; kind < BD_SIM_PASS_KINDS; kind++) {
      m->stage[s].pass[kind] = m->work[s][kind];
      for (int c = 0; c < t->chunks; c++)
        m->work[s][kind][c].actions = m->action[s][kind][c];
    }
  }
  for (int message = 0; message < parts - 1; message++) {
    int from = message % t->stages, to = (message + 1) % t->stages;
    m->messages[message] = (bd_sim_message){.from = from, .to = to};
    m->messages[parts - 1 + message] = (bd_sim_message){.from = to, .to = from};
  }
  m->problem.message_count = 2 * (parts - 1);
  for (int part = 0; part < parts; part++)
    add_part(t, part, m);
}

typedef struct seconds {
  double formula, ordered, replayed;
} seconds;

static seconds seconds_of(bd_ctx *ctx, const trial *t) {
  static made m;
  bd_sim_result result;
  seconds out;
  make_problem(t, &m);
  assert_int_equal(bd_sim_run(ctx, &m.problem, NULL, &result), BD_OK);
  out.replayed = result.step_seconds;
  assert_int_equal(bd_step_ordered_seconds(ctx, t->schedule, t->stages, t->chunks, t->micro_batches,
                                           t->stage, &out.ordered),
                   BD_OK);
  out.formula = bd_step_seconds(t->schedule, t->stages, t->chunks, t->micro_batches, t->stage);
  bd_arena_reset(ctx->arena);
  return out;
}

// The passes on the longest path add up to the step, and to no more than another step of as many
// stages and micro-batches.
static void test_path(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  for (int i = 0; i < TRIALS / 4; i++) {
    trial t = make_trial(1 + i / 2 % 8), other = t;
    t.schedule = other.schedule = i % 2 ? BD_SCHEDULE_1F1B : BD_SCHEDULE_GPIPE;
    double seconds[2] = {0, 0};
    bd_step_path path;
    for (int s = 0; s < t.stages; s++) {
      t.stage[s].sync = other.stage[s].sync = 0;
      other.stage[s].forward *= 0.5 + unit();
      other.stage[s].backward *= 0.5 + unit();
    }
    bd_step_find_path(ctx, t.schedule, t.stages, t.micro_batches, t.stage, &path);
    for (int s = 0; s < t.stages; s++) {
      seconds[0] += path.forwards[s] * t.stage[s].forward + path.backwards[s] * t.stage[s].backward;
      seconds[1] +=
          path.forwards[s] * other.stage[s].forward + path.backwards[s] * other.stage[s].backward;
    }
    double step = bd_step_emitted_seconds(t.schedule, t.stages, t.micro_batches, t.stage);
    double least = bd_step_emitted_seconds(t.schedule, t.stages, t.micro_batches, other.stage);
    assert_true(fabs(seconds[0] - step) <= 1e-9 * step);
    assert_true(fabs(path.seconds - step) <= 1e-9 * step);
    assert_true(seconds[1] <= least * (1 + 1e-9));
    bd_arena_reset(ctx->arena);
  }
  bd_ctx_destroy(ctx);
}

// Whatever the stages, pass by pass is the replay.
static void test_ordered(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  for (int i = 0; i < TRIALS; i++) {
    trial t = make_trial(1 + i % 8);
    seconds s = seconds_of(ctx, &t);
    assert_true(fabs(s.ordered - s.replayed) <= 1e-9 * s.replayed);
  }
  bd_ctx_destroy(ctx);
}

// The formula: exact for equal stages and for gpipe; else up to so much above and below the
// replay, by how much stages differ.
static void test_formula(void **state) {
  (void)state;
  static const struct {
    double spread, above, below;
  } limits[] = {{1, 1e-9, 1e-9}, {1.1, 0.08, 0.02}, {1.3, 0.15, 0.04}, {2, 0.25, 0.08}};
  bd_ctx *ctx = bd_ctx_create();
  for (size_t k = 0; k < sizeof limits / sizeof *limits; k++)
    for (int i = 0; i < TRIALS; i++) {
      trial t = make_trial(limits[k].spread);
      seconds s = seconds_of(ctx, &t);
      double excess = s.formula / s.replayed - 1;
      assert_true(excess <= limits[k].above && excess >= -limits[k].below);
      if (t.schedule == BD_SCHEDULE_GPIPE) assert_true(fabs(excess) <= 1e-9);
    }
  bd_ctx_destroy(ctx);
}

// What a step takes at least, from the sum of its stages and from each of them; equal stages that
// share evenly take no more than that.
static void test_bound(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  int even = 0;
  for (int i = 0; i < TRIALS; i++) {
    trial t = make_trial(1 + i / 2 % 8);
    t.schedule = i % 2 ? BD_SCHEDULE_1F1B : BD_SCHEDULE_GPIPE;
    t.chunks = 1;
    double sum = 0, after = 0, slack = 1 + 1e-9;
    for (int s = 0; s < t.stages; s++) {
      t.stage[s].sync = t.stage[s].weight = 0;
      sum += t.stage[s].forward + t.stage[s].backward;
    }
    double seconds = seconds_of(ctx, &t).replayed;
    double least = bd_step_least_seconds(t.schedule, t.stages, t.micro_batches, sum);
    assert_true(least <= seconds * slack);
    for (int s = t.stages - 1; s >= 0; s--) {
      double own = t.stage[s].forward + t.stage[s].backward;
      assert_true(own <= bd_step_most_seconds(t.schedule, s, t.stages, t.micro_batches, after,
                                              seconds * slack - sum));
      double rest = bd_step_rest_seconds(t.schedule, s, t.stages, t.micro_batches, own, after);
      double backward = bd_step_backward_rest_seconds(t.schedule, s, t.stages, t.micro_batches, own,
                                                      t.stage[s].backward);
      assert_true(sum + fmax(rest, backward) <= seconds * slack);
      after += own;
    }
    bool tight = i / 2 % 8 == 0 && (t.micro_batches > t.stages || t.schedule == BD_SCHEDULE_GPIPE);
    if (tight) assert_true(seconds <= least * slack);
    even += tight;
  }
  assert_true(even > TRIALS / 20);
  bd_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_ordered), cmocka_unit_test(test_bound),
                                     cmocka_unit_test(test_path), cmocka_unit_test(test_formula)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
