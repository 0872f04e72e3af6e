// The replay's events on problems made by hand.
#include "ir/base/json.h"
#include "planner/simulate/trace.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 3 };

// A forward that computes for a second and a backward for two, with what each stage adds.
typedef struct made {
  bd_sim_action actions[MOST][2][4];
  bd_sim_work works[MOST][BD_SIM_PASS_KINDS];
  bd_sim_stage stages[MOST];
  bd_sim_message messages[4];
  bd_sim_problem problem;
} made;

static void make(made *m, bd_schedule schedule, int stages, int micro_batches) {
  memset(m, 0, sizeof *m);
  m->problem = (bd_sim_problem){.schedule = schedule,
                                .stages = stages,
                                .chunks = 1,
                                .micro_batches = micro_batches,
                                .blocking = true,
                                .messages = m->messages,
                                .stage = m->stages};
  for (int s = 0; s < stages; s++) {
    m->stages[s].ranks = 1;
    m->stages[s].fixed_bytes[BD_SEGMENT_WEIGHTS] = 1000;
    m->stages[s].slot_bytes[BD_SEGMENT_TAPE] = 10;
    for (int kind = 0; kind < BD_SIM_PASS_KINDS; kind++)
      m->stages[s].pass[kind] = &m->works[s][kind];
    for (int kind = 0; kind < 2; kind++)
      m->works[s][kind].actions = m->actions[s][kind];
  }
}

static void add(made *m, int stage, int kind, bd_sim_action action) {
  bd_sim_work *work = &m->works[stage][kind];
  work->actions[work->count++] = action;
}

static bd_sim_action compute(double seconds) {
  return (bd_sim_action){.kind = BD_SIM_COMPUTE, .seconds = seconds};
}

// Adds a message with its send and its receive at the ends of two passes.
static void add_message(made *m, int kind, int from, int to, double latency, double move) {
  int message = m->problem.message_count++;
  m->messages[message] =
      (bd_sim_message){.from = from, .to = to, .latency_seconds = latency, .move_seconds = move};
  add(m, from, kind, (bd_sim_action){.kind = BD_SIM_SEND, .message = message});
  add(m, to, kind, (bd_sim_action){.kind = BD_SIM_RECEIVE, .message = message});
}

static bd_sim_result run(bd_ctx *ctx, const made *m) {
  bd_sim_result result;
  assert_int_equal(bd_sim_run(ctx, &m->problem, NULL, &result), BD_OK);
  return result;
}

// Two stages, one micro-batch: everything one after another, then reductions and updates apart.
static void test_order(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  made m;
  make(&m, BD_SCHEDULE_1F1B, 2, 1);
  add(&m, 0, BD_PASS_FORWARD, compute(1));
  add_message(&m, BD_PASS_FORWARD, 0, 1, 0.25, 0.5);
  add(&m, 1, BD_PASS_FORWARD, compute(1));
  add(&m, 1, BD_PASS_BACKWARD, compute(2));
  add_message(&m, BD_PASS_BACKWARD, 1, 0, 0.25, 0.5);
  add(&m, 0, BD_PASS_BACKWARD, compute(2));
  bd_sim_action ends[2] = {compute(3), compute(4)};
  m.stages[0].reduce = (bd_sim_work){1, &ends[0]};
  m.stages[1].update = (bd_sim_work){1, &ends[1]};
  bd_sim_result result = run(ctx, &m);
  assert_float_equal(result.passes_seconds, 7.5, 1e-12);
  assert_float_equal(result.step_seconds, 14.5, 1e-12);
  assert_float_equal(result.times[0].receive_seconds, 0.75, 1e-12);
  assert_float_equal(result.times[0].bubble_seconds, 14.5 - 3 - 3 - 0.75, 1e-12);
  assert_int_equal(result.peak[0].total_bytes, 1010);
  bd_ctx_destroy(ctx);
}

// A device that sends two messages over one link at a time gives half of it to each.
static void test_contention(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  for (int apart = 0; apart < 2; apart++) {
    made m;
    make(&m, BD_SCHEDULE_GPIPE, 3, 1);
    add_message(&m, BD_PASS_FORWARD, 0, 1, 0, 4);
    add_message(&m, BD_PASS_FORWARD, 0, 2, 0, 6);
    m.messages[1].between_nodes = apart;
    bd_sim_result result = run(ctx, &m);
    // Shared: 4 seconds of each take 8, what is left of the longer one then has the link alone.
    assert_float_equal(result.times[1].receive_seconds, apart ? 4 : 8, 1e-12);
    assert_float_equal(result.times[2].receive_seconds, apart ? 6 : 10, 1e-12);
  }
  bd_ctx_destroy(ctx);
}

// A sender runs one message ahead of the receiver, no further.
static void test_room(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  for (int blocking = 0; blocking < 2; blocking++) {
    made m;
    make(&m, BD_SCHEDULE_GPIPE, 2, 4);
    m.problem.blocking = blocking;
    add_message(&m, BD_PASS_FORWARD, 0, 1, 0, 0);
    add(&m, 1, BD_PASS_FORWARD, compute(1));
    add(&m, 0, BD_PASS_BACKWARD, compute(1));
    bd_sim_result result = run(ctx, &m);
    assert_float_equal(result.times[0].passes_end_seconds, blocking ? 6 : 4, 1e-12);
    assert_int_equal(result.peak[1].bytes[BD_SEGMENT_TAPE], 40);
  }
  bd_ctx_destroy(ctx);
}

static void test_circle(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  made m;
  make(&m, BD_SCHEDULE_1F1B, 2, 1);
  add_message(&m, BD_PASS_FORWARD, 0, 1, 0, 0);
  add_message(&m, BD_PASS_FORWARD, 1, 0, 0, 0);
  bd_sim_action first = m.actions[0][0][0]; // both receive before they send
  m.actions[0][0][0] = m.actions[0][0][1];
  m.actions[0][0][1] = first;
  bd_sim_result result;
  assert_int_equal(bd_sim_run(ctx, &m.problem, NULL, &result), BD_INVALID);
  m.problem.micro_batches = 1 << 30;
  assert_int_equal(bd_sim_run(ctx, &m.problem, NULL, &result), BD_EXHAUSTED);
  bd_ctx_destroy(ctx);
}

static double real_of(const bd_json *object, const char *key) {
  const bd_json *member = bd_json_find(object, key);
  assert_non_null(member);
  assert_true(member->kind == BD_JSON_REAL || member->kind == BD_JSON_INT);
  return member->real;
}

// Every event of a trace is whole; each flow leaves a send and arrives at a receive later on; the
// counter's most is the peak.
static void test_trace(void **state) {
  (void)state;
  bd_ctx *ctx = bd_ctx_create();
  made m;
  make(&m, BD_SCHEDULE_1F1B, 2, 3);
  add(&m, 0, BD_PASS_FORWARD, compute(1));
  add_message(&m, BD_PASS_FORWARD, 0, 1, 0.25, 0.5);
  add(&m, 1, BD_PASS_FORWARD, compute(1));
  bd_sim_record record = {0};
  bd_sim_result result;
  bd_text text = bd_text_init(ctx->arena);
  const bd_json *root;
  assert_int_equal(bd_sim_run(ctx, &m.problem, &record, &result), BD_OK);
  assert_int_equal(bd_sim_trace(ctx, &m.problem, &record, &text), BD_OK);
  assert_int_equal(bd_json_parse(ctx, "trace", text.data, text.length, &root), BD_OK);
  const bd_json *events = bd_json_find(root, "traceEvents");
  double left[3] = {-1, -1, -1}, most = 0, end = 0;
  int arrived = 0, slices = 0;
  for (size_t i = 0; i < events->count; i++) {
    const bd_json *event = &events->items[i];
    char phase = bd_json_find(event, "ph")->string[0];
    assert_in_range(bd_json_find(event, "pid")->integer, 0, 1);
    if (phase == 'M') continue;
    double at = real_of(event, "ts");
    if (phase == 'X') {
      slices++;
      end = fmax(end, at + real_of(event, "dur"));
    } else if (phase == 'C') {
      most = fmax(most, real_of(bd_json_find(event, "args"), "tape"));
    } else {
      int64_t id = bd_json_find(event, "id")->integer;
      assert_in_range(id, 0, 2);
      if (phase == 's') left[id] = at;
      if (phase == 'f') assert_true(left[id] >= 0 && at > left[id]);
      arrived += phase == 'f';
    }
  }
  assert_int_equal(arrived, 3);
  assert_int_equal(slices, 2 * 3 + 2 * 3);
  assert_float_equal(end, result.passes_seconds * 1e6, 1e-3);
  assert_float_equal(most, (double)result.peak[0].bytes[BD_SEGMENT_TAPE], 0);
  record.event_count = BD_SIM_MOST_EVENTS;
  assert_int_equal(bd_sim_trace(ctx, &m.problem, &record, &text), BD_EXHAUSTED);
  bd_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_order),  cmocka_unit_test(test_contention), cmocka_unit_test(test_room),
      cmocka_unit_test(test_circle), cmocka_unit_test(test_trace),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
