// Steps whose stages wait for messages against the replay of the same plan: messages between all
// stages, on links that they share, anywhere in their passes.
#include "planner/simulate/source.h"
#include "planner/step/messages.h"
#include "tests/unit/random.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { MOST_STAGES = 8, MOST_SENT = 2 * MOST_STAGES, TRIALS = 2000 };

typedef struct made {
  bd_plan plan;
  bd_stage_prediction stages[MOST_STAGES];
  bd_message_prediction messages[MOST_STAGES][MOST_SENT];
  int handled[2][MOST_STAGES]; // messages of a pass, by direction
} made;

static double unit(void) {
  return random_below(1u << 20) / (double)(1u << 20);
}

static void add_message(made *m, int from, int to, double slowness) {
  bd_stage_prediction *sender = &m->stages[from], *receiver = &m->stages[to];
  bool backward = from > to;
  bd_message_prediction *out = &m->messages[from][sender->message_count++];
  *out = (bd_message_prediction){.to = to,
                                 .backward = backward,
                                 .between_nodes = random_below(2),
                                 .bytes = 1 + random_below(100),
                                 .copy_seconds = 0.05 * unit(),
                                 .latency_seconds = 0.02 * unit(),
                                 .move_seconds = slowness * unit()};
  out->received_turn = m->handled[backward][to]++;
  if (from - to != 1 && to - from != 1 && random_below(2)) {
    out->received_after_seconds = unit() / 2;
    out->sent_turn = 1;
    out->sent_before_seconds = unit() / 2;
  }
  *(backward ? &sender->backward_seconds : &sender->forward_seconds) += out->copy_seconds;
  *(backward ? &receiver->backward_seconds : &receiver->forward_seconds) +=
      out->latency_seconds + out->move_seconds;
}

// In the order in which a program has them: all that goes to a stage before what goes on from it.
static void make(made *m, bd_schedule schedule, bool skips, int micro_batches) {
  double slowness = random_below(2) ? 1 : 0.1;
  *m = (made){.plan = {.schedule = schedule,
                       .stages = 2 + (int)random_below(MOST_STAGES - 1),
                       .micro_batch = 1,
                       .global_batch = micro_batches,
                       .mesh = {1, {1}},
                       .predicted = m->stages}};
  int stages = m->plan.stages;
  for (int s = 0; s < stages; s++) {
    bd_stage_prediction *p = &m->stages[s];
    p->messages = m->messages[s];
    p->forward_seconds = 0.5 + unit();
    p->backward_seconds = 0.5 + 2 * unit();
    if (schedule == BD_SCHEDULE_ZERO_BUBBLE) p->weight_seconds = p->backward_seconds * unit() / 2;
    p->sync_seconds = unit();
    p->apply_seconds = p->sync_seconds * unit();
  }
  for (int to = 1; to < stages; to++)
    for (int from = to - 1; from >= 0; from--)
      if (from == to - 1 || (skips && random_below(2))) add_message(m, from, to, slowness);
  for (int to = stages - 2; to >= 0; to--)
    for (int from = to + 1; from < stages; from++)
      if (from == to + 1 || (skips && random_below(2))) add_message(m, from, to, slowness);
}

// How much longer the replay takes, as a part of the prediction.
static double error_of(bd_ctx *ctx, const bd_plan *plan) {
  bd_sim_problem problem;
  bd_sim_result result;
  double seconds;
  assert_int_equal(bd_step_plan_seconds(ctx, plan, &seconds), BD_OK);
  assert_int_equal(bd_sim_tell(ctx, plan, &problem), BD_OK);
  assert_int_equal(bd_sim_run(ctx, &problem, NULL, &result), BD_OK);
  return result.step_seconds / seconds - 1;
}

// But for rounding, which links that are shared make more of.
static void test_few_micro_batches(void **state) {
  (void)state;
  static made m;
  for (int i = 0; i < TRIALS; i++) {
    bd_ctx *ctx = bd_ctx_create();
    random_begin(911 + 1000 * (uint64_t)i);
    make(&m, i % 2 ? BD_SCHEDULE_1F1B : BD_SCHEDULE_GPIPE, true, 1 + (int)random_below(256));
    if (bd_step_has_detours(&m.plan)) assert_float_equal(error_of(ctx, &m.plan), 0, 3e-3);
    bd_ctx_destroy(ctx);
  }
}

// Steps go on as their later half did.
static void test_many_micro_batches(void **state) {
  (void)state;
  static made m;
  for (int i = 0; i < TRIALS / 10; i++) {
    bd_ctx *ctx = bd_ctx_create();
    random_begin(912 + 1000 * (uint64_t)i);
    make(&m, i % 2 ? BD_SCHEDULE_1F1B : BD_SCHEDULE_GPIPE, true, 257 + (int)random_below(700));
    if (bd_step_has_detours(&m.plan)) assert_float_equal(error_of(ctx, &m.plan), 0, 0.03);
    bd_ctx_destroy(ctx);
  }
}

// Where nobody told the messages, they share a link all the same.
static void test_untold(void **state) {
  (void)state;
  static made m;
  for (int i = 0; i < TRIALS; i++) {
    bd_ctx *ctx = bd_ctx_create();
    random_begin(913 + 1000 * (uint64_t)i);
    make(&m, (bd_schedule)(i % BD_SCHEDULE_COUNT), false, 1 + (int)random_below(64));
    int stages = m.plan.stages;
    if (m.plan.schedule == BD_SCHEDULE_INTERLEAVED) {
      m.plan.chunks = 1 + (int)random_below(3);
      m.plan.global_batch = stages * (1 + (int64_t)random_below(64 / (unsigned)stages));
    }
    for (int s = 0; s < stages; s++) {
      m.stages[s].message_count = 0;
      m.stages[s].send_seconds =
          0.3 * unit() * fmin(m.stages[s].forward_seconds, m.stages[s].backward_seconds);
      m.stages[s].weight_seconds *= 0.5;
    }
    assert_float_equal(error_of(ctx, &m.plan), 0, 0.03);
    bd_ctx_destroy(ctx);
  }
}

// What passes over stages never makes a step shorter, which bounds count on.
static void test_no_shorter(void **state) {
  (void)state;
  static made m;
  for (int i = 0; i < TRIALS; i++) {
    bd_ctx *ctx = bd_ctx_create();
    random_begin(914 + 1000 * (uint64_t)i);
    make(&m, i % 2 ? BD_SCHEDULE_1F1B : BD_SCHEDULE_GPIPE, true, 1 + (int)random_below(200));
    bd_stage_seconds stage[MOST_STAGES];
    double seconds, least;
    for (int s = 0; s < m.plan.stages; s++)
      stage[s] = (bd_stage_seconds){m.stages[s].forward_seconds, m.stages[s].backward_seconds, 0,
                                    m.stages[s].sync_seconds, m.stages[s].apply_seconds};
    bd_step_leave_out_detours(&m.plan, stage);
    least = bd_step_emitted_seconds(m.plan.schedule, m.plan.stages, bd_plan_micro_batches(&m.plan),
                                    stage);
    assert_int_equal(bd_step_plan_seconds(ctx, &m.plan, &seconds), BD_OK);
    assert_true(seconds >= least * (1 - 1e-12));
    bd_ctx_destroy(ctx);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_few_micro_batches), cmocka_unit_test(test_many_micro_batches),
      cmocka_unit_test(test_untold), cmocka_unit_test(test_no_shorter)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
