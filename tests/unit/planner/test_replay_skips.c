// Values that pass over stages: with the copies that senders keep, no stages wait for each other in
// a circle, whatever their passes take.
#include "planner/simulate/simulate.h"
#include "tests/unit/random.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { MOST = 9, TRIALS = 300 };

typedef struct made {
  bd_sim_action actions[MOST][2][2 * MOST];
  bd_sim_work works[MOST][BD_SIM_PASS_KINDS];
  bd_sim_stage stages[MOST];
  bd_sim_message messages[MOST * MOST];
  int message_of[2][MOST][MOST]; // by pass, sender and receiver; -1: none
  bd_sim_problem problem;
} made;

// Forward hands on to the next stage and over some others; backward goes the same ways back.
static void draw_messages(made *m, int stages) {
  for (int from = 0; from < stages; from++)
    for (int to = from + 1; to < stages; to++) {
      bool some = to == from + 1 || random_below(2);
      for (int backward = 0; backward < 2; backward++) {
        int sender = backward ? to : from, receiver = backward ? from : to;
        m->message_of[backward][sender][receiver] = some ? m->problem.message_count : -1;
        if (!some) continue;
        m->messages[m->problem.message_count++] =
            (bd_sim_message){.from = sender,
                             .to = receiver,
                             .latency_seconds = 0.01 * random_below(3),
                             .move_seconds = 0.1 * random_below(5)};
      }
    }
}

static void add(made *m, int stage, int backward, bd_sim_action action) {
  bd_sim_work *work = &m->works[stage][backward];
  m->actions[stage][backward][work->count++] = action;
}

// A pass receives, computes, and sends.
static void draw_pass(made *m, int stage, int backward) {
  m->works[stage][backward].actions = m->actions[stage][backward];
  m->stages[stage].pass[backward] = &m->works[stage][backward];
  for (int other = 0; other < m->problem.stages; other++) {
    if (backward ? other <= stage : other >= stage) continue;
    int message = m->message_of[backward][other][stage];
    if (message >= 0) add(m, stage, backward, (bd_sim_action){BD_SIM_RECEIVE, .message = message});
  }
  double seconds = 0.1 * (1 + random_below(20));
  add(m, stage, backward, (bd_sim_action){.kind = BD_SIM_COMPUTE, .seconds = seconds});
  for (int other = 0; other < m->problem.stages; other++) {
    if (backward ? other >= stage : other <= stage) continue;
    int message = m->message_of[backward][stage][other];
    if (message >= 0) add(m, stage, backward, (bd_sim_action){BD_SIM_SEND, .message = message});
  }
}

static void draw(made *m, bd_schedule schedule) {
  int stages = 2 + random_below(MOST - 1);
  *m = (made){.problem = {.schedule = schedule,
                          .stages = stages,
                          .chunks = 1,
                          .micro_batches = 1 + random_below(2 * MOST),
                          .blocking = true,
                          .messages = m->messages,
                          .stage = m->stages}};
  draw_messages(m, stages);
  for (int s = 0; s < stages; s++) {
    m->stages[s].ranks = 1;
    m->stages[s].pass[BD_PASS_WEIGHT] = &m->works[s][BD_PASS_WEIGHT];
    draw_pass(m, s, 0);
    draw_pass(m, s, 1);
  }
}

static void test_no_circles(void **state) {
  (void)state;
  static made m;
  for (int trial = 0; trial < TRIALS; trial++) {
    random_begin(4711 + 1000 * trial);
    bd_ctx *ctx = bd_ctx_create();
    draw(&m, trial % 2 ? BD_SCHEDULE_GPIPE : BD_SCHEDULE_1F1B);
    bd_sim_result result;
    assert_int_equal(bd_sim_run(ctx, &m.problem, NULL, &result), BD_OK);
    bd_ctx_destroy(ctx);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_circles)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
