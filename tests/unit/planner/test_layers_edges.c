// Layer graphs at the edges of what bounds and plans near them reckon with: no seconds, no path,
// more bytes than a number holds.
#include "planner/graph/read.h"
#include "planner/graph/sketch.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

typedef struct opened {
  bd_ctx *ctx;
  bd_layers_problem problem;
  bd_layers_setting setting;
  bd_layers_meter meter;
  bd_layers_effort effort;
} opened;

// The graph of a file under 1F1B on so many stages.
static void open_graph(opened *o, const char *text, int stages) {
  bd_layers_names names;
  bool possible;
  *o = (opened){.ctx = bd_ctx_create(), .meter = {.deadline = BD_NO_DEADLINE}};
  assert_int_equal(bd_layers_read(o->ctx, "graph.json", text, strlen(text), 0, &o->problem, &names),
                   BD_OK);
  bd_layers_setting_open(o->ctx, &o->problem, BD_SCHEDULE_1F1B, stages, 1,
                         o->problem.micro_batches[0], &o->setting, &possible);
  assert_true(possible);
  o->effort = (bd_layers_effort){64, 64, &o->meter, INT64_MAX, true};
}

// The fastest options take no time, and one layer of three has no room for its own.
static void test_no_seconds(void **unused) {
  (void)unused;
  opened o;
  bd_layers_outcome outcome;
  open_graph(
      &o,
      "{\"braid_layers\": 1, \"devices\": [{\"kind\": \"k\", \"count\": 2, \"cap_bytes\": 10}],"
      "\"micro_batches\": 4, \"layers\": [{\"name\": \"a\", \"repeat\": 3, \"options\": ["
      "{\"forward_seconds\": 0, \"backward_seconds\": 0, \"fixed_bytes\": 6},"
      "{\"forward_seconds\": 1, \"backward_seconds\": 1, \"fixed_bytes\": 4}]}]}",
      2);
  bd_layers_sketch(o.ctx, &o.setting, &o.effort, INFINITY, &outcome);
  assert_true(outcome.found);
  assert_true(outcome.seconds == 8);
  assert_true(outcome.bound > 7 && outcome.bound <= 8);
  for (double cutoff = 8.1; cutoff < 100; cutoff *= 4) {
    assert_int_equal(bd_layers_chain(o.ctx, &o.setting, &o.effort, cutoff, false, &outcome), BD_OK);
    assert_true(outcome.found && outcome.seconds == 8 && outcome.bound == 8);
  }
  bd_ctx_destroy(o.ctx);
}

// Nothing takes time, but what passes.
static void test_no_seconds_of_layers(void **unused) {
  (void)unused;
  opened o;
  bd_layers_outcome outcome;
  open_graph(
      &o,
      "{\"braid_layers\": 1, \"devices\": [{\"kind\": \"k\", \"count\": 2, \"cap_bytes\": 10}],"
      "\"link\": {\"bytes_per_second\": 1}, \"micro_batches\": 4, \"layers\": [{\"name\": \"a\","
      "\"repeat\": 3, \"output_bytes\": 1, \"options\": [{\"forward_seconds\": 0,"
      "\"backward_seconds\": 0, \"fixed_bytes\": 4}]}]}",
      2);
  for (double cutoff = 10.1; cutoff < 100; cutoff *= 4) {
    bd_layers_sketch(o.ctx, &o.setting, &o.effort, cutoff, &outcome);
    assert_true(outcome.found && outcome.seconds == 10);
    assert_true(outcome.bound > 9.9 && outcome.bound <= 10);
  }
  bd_ctx_destroy(o.ctx);
}

// Forms that cannot change, on one stage.
static void test_no_path(void **unused) {
  (void)unused;
  opened o;
  bd_layers_outcome outcome;
  open_graph(
      &o,
      "{\"braid_layers\": 1, \"devices\": [{\"kind\": \"k\", \"count\": 2, \"cap_bytes\": 10}],"
      "\"micro_batches\": 4, \"layers\": ["
      "{\"name\": \"a\", \"options\": [{\"form\": \"p\", \"forward_seconds\": 1, "
      "\"backward_seconds\": 1}]},"
      "{\"name\": \"b\", \"options\": [{\"form\": \"q\", \"forward_seconds\": 1, "
      "\"backward_seconds\": 1}]}]}",
      1);
  bd_layers_sketch(o.ctx, &o.setting, &o.effort, INFINITY, &outcome);
  assert_false(outcome.found);
  assert_true(isinf(outcome.bound));
  bd_ctx_destroy(o.ctx);
}

// 2^56 bytes a layer, more than 2^63 of 200.
static void test_bytes_do_not_wrap(void **unused) {
  (void)unused;
  opened o;
  bd_layers_stage stage;
  int mode[1] = {0}, zeros[200] = {0};
  open_graph(
      &o,
      "{\"braid_layers\": 1, \"devices\": [{\"kind\": \"k\", \"count\": 1, \"cap_bytes\": "
      "1125899906842624}],"
      "\"micro_batches\": 65536, \"layers\": [{\"name\": \"a\", \"repeat\": 200, \"options\": ["
      "{\"forward_seconds\": 1, \"backward_seconds\": 1, \"micro_batch_bytes\": 1099511627776}]}]}",
      1);
  bd_layers_plan plan = {.schedule = BD_SCHEDULE_GPIPE,
                         .micro_batches = 65536,
                         .stages = 1,
                         .chunks = 1,
                         .mode = mode,
                         .part = zeros,
                         .option = zeros};
  assert_true(isfinite(bd_layers_measure(&o.problem, &plan, &stage)));
  assert_true(stage.bytes == INT64_MAX);
  bd_ctx_destroy(o.ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_no_seconds), cmocka_unit_test(test_no_seconds_of_layers),
      cmocka_unit_test(test_no_path), cmocka_unit_test(test_bytes_do_not_wrap)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
