// The search's contract on a small model: caps are honoured, room never hurts, and what it says of
// bounds and of the nearest plan is true.
#include "frontend/transformer.h"
#include "ir/base/clock.h"
#include "ir/memory.h"
#include "ir/partition.h"
#include "ir/pass.h"
#include "planner/full/full.h"
#include "planner/planner.h"
#include "tests/unit/planner/support_session.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

// Searches under a cap; what succeeds keeps its word.
static bd_status search(session *s, int64_t cap_bytes, bd_plan *out) {
  s->request.cap_bytes = cap_bytes;
  bd_status status = bd_plan_search(s->ctx, s->train, &s->cluster, &s->request, out);
  if (status != BD_OK) return status;
  if (cap_bytes) assert_true(plan_bytes(out) <= cap_bytes);
  assert_true(out->bound_seconds > 0);
  assert_true(out->bound_seconds <= out->step_seconds * (1 + 1e-9));
  assert_true(fabs(out->gap - (out->step_seconds / out->bound_seconds - 1)) < 1e-9);
  assert_int_equal(bd_plan_check(s->ctx, s->train, out), BD_OK);
  double seconds = out->step_seconds;
  int64_t bytes = plan_bytes(out);
  assert_int_equal(bd_plan_predict(s->ctx, s->train, &s->cluster, out), BD_OK);
  assert_true(out->step_seconds == seconds && plan_bytes(out) == bytes);
  return BD_OK;
}

static int64_t leanest_need(session *s) {
  bd_plan plan;
  assert_int_equal(search(s, 1, &plan), BD_INFEASIBLE);
  long long bytes = 0;
  for (const bd_diag *d = s->ctx->first_diag; d; d = d->next) {
    const char *at = strstr(d->message, "the leanest needs ");
    if (at) bytes = strtoll(at + strlen("the leanest needs "), NULL, 10);
  }
  assert_true(bytes > 1);
  return bytes;
}

static void test_room_never_hurts(void **unused) {
  (void)unused;
  session s = open_session("cpu:1x2", 4);
  bd_plan plan;
  assert_int_equal(search(&s, 0, &plan), BD_OK);
  double fastest = plan.step_seconds, slower = INFINITY;
  int64_t most = plan_bytes(&plan), least = leanest_need(&s);
  assert_true(least <= most);
  for (int i = 0; i <= 12; i++) {
    assert_int_equal(search(&s, least + (most - least) * i / 12, &plan), BD_OK);
    assert_true(plan.step_seconds <= slower);
    slower = plan.step_seconds;
  }
  assert_true(slower == fastest);
  bd_ctx_destroy(s.ctx);
}

// What is found with a pin is in the open space as well, also where little has room.
static void test_pins_never_help(void **unused) {
  (void)unused;
  session s = open_model("llama-tiny", "cpu:2x2", 32);
  int64_t cap = (int64_t)(1.02 * (double)leanest_need(&s));
  bd_plan open, plan;
  int fitted = 0;
  assert_int_equal(search(&s, cap, &open), BD_OK);
  for (int micro_batch = 1; micro_batch <= 4; micro_batch *= 2) {
    s.request.micro_batch = micro_batch;
    if (search(&s, cap, &plan) != BD_OK) continue;
    assert_true(open.step_seconds <= plan.step_seconds * (1 + 1e-9));
    fitted++;
  }
  assert_true(fitted > 1);
  bd_ctx_destroy(s.ctx);
}

static void test_leanest_is_the_border(void **unused) {
  (void)unused;
  session s = open_session("cpu:1x2", 4);
  int64_t least = leanest_need(&s);
  bd_plan plan;
  assert_int_equal(search(&s, least, &plan), BD_OK);
  assert_int_equal(plan_bytes(&plan), least);
  assert_int_equal(search(&s, least - 1, &plan), BD_INFEASIBLE);
  bd_ctx_destroy(s.ctx);
}

static const char *printed(session *s, const bd_plan *plan) {
  bd_text text = bd_text_init(s->ctx->arena);
  bd_plan_print(plan, s->train, &text);
  return text.data;
}

// Tight caps as well, where many attempts find plans.
static void test_threads_change_nothing(void **unused) {
  (void)unused;
  session s = open_session("cpu:1x2", 4);
  bd_plan plan;
  int64_t least = leanest_need(&s);
  static const double room[] = {0, 1, 1.2};
  for (size_t i = 0; i < sizeof room / sizeof *room; i++) {
    s.request.threads = 1;
    assert_int_equal(search(&s, (int64_t)(room[i] * (double)least), &plan), BD_OK);
    const char *alone = printed(&s, &plan);
    s.request.threads = 4;
    assert_int_equal(search(&s, (int64_t)(room[i] * (double)least), &plan), BD_OK);
    assert_string_equal(printed(&s, &plan), alone);
  }
  bd_ctx_destroy(s.ctx);
}

typedef struct stopping {
  volatile sig_atomic_t stop;
  int told;
  double last_bound;
} stopping;

// Bounds only rise, and a plan in hand is kept.
static void stop_at_plan(void *user, const bd_plan_progress *progress) {
  stopping *state = user;
  state->told++;
  assert_true(progress->bound_seconds >= state->last_bound);
  assert_true(progress->bound_seconds <= progress->step_seconds);
  state->last_bound = progress->bound_seconds;
  if (isfinite(progress->step_seconds)) state->stop = 1;
}

static void test_stops_when_told(void **unused) {
  (void)unused;
  session s = open_session("cpu:1x4", 4);
  stopping state = {.stop = 1};
  s.request.stop = &state.stop;
  s.request.progress = stop_at_plan;
  s.request.progress_user = &state;
  bd_plan plan;
  assert_int_equal(search(&s, 0, &plan), BD_EXTERNAL);
  assert_int_equal(state.told, 0);
  assert_non_null(strstr(s.ctx->first_diag->message, "interrupted before it found a plan"));
  state.stop = 0;
  assert_int_equal(search(&s, 0, &plan), BD_OK);
  assert_true(state.told > 0);
  assert_true(strstr(plan.search, "interrupt") || !plan.gap);
  assert_true(plan.bound_seconds >= state.last_bound * (1 - 1e-9));
  bd_ctx_destroy(s.ctx);
}

// A pin narrows the space: never faster, and the pins hold.
static void test_pins(void **unused) {
  (void)unused;
  session s = open_session("cpu:1x2", 4);
  bd_plan open, plan;
  assert_int_equal(search(&s, 0, &open), BD_OK);
  s.request.stages = 2;
  s.request.schedule = BD_SCHEDULE_GPIPE;
  s.request.micro_batch = 2;
  s.request.zero = 1;
  assert_int_equal(search(&s, 0, &plan), BD_OK);
  assert_int_equal(plan.stages, 2);
  assert_int_equal(plan.schedule, BD_SCHEDULE_GPIPE);
  assert_int_equal(plan.micro_batch, 2);
  assert_true(plan.zero_axes != 0);
  assert_true(plan.step_seconds >= open.step_seconds);
  bd_ctx_destroy(s.ctx);
}

// One layer of 8192 tokens in bf16: a head's gradients of scores take 128 MiB.
static session open_long(void) {
  static const bd_gpt2_config config = {.vocabulary = 11,
                                        .positions = 8192,
                                        .width = 16,
                                        .layers = 1,
                                        .heads = 1,
                                        .inner = 16,
                                        .activation = BD_OP_GELU,
                                        .epsilon = 1e-5,
                                        .init_scale = 0.02,
                                        .tied = true,
                                        .stored_prefix = ""};
  static const bd_model_options options = {0};
  session s = open_session("h100:1x2", 2);
  const char *passes = bd_training_passes(BD_BF16, BD_MASTERS_F32, BD_GRADIENTS_F32, "cuda");
  bd_module *graph;
  assert_int_equal(bd_gpt2_build(s.ctx, "long", &config, &options, BD_NOWHERE, &graph), BD_OK);
  assert_int_equal(bd_pass_run_list(s.ctx, passes, NULL, stderr, graph, &s.train), BD_OK);
  s.request.target = "cuda";
  s.request.precision = BD_BF16;
  s.request.sequence = 8192;
  return s;
}

// What a program would lay out, byte for byte.
static void check_bytes(session *s, const bd_plan *plan, int64_t library_mib) {
  bd_module *sharded, *spmd;
  assert_int_equal(bd_apply_plan(s->ctx, s->train, plan, &sharded), BD_OK);
  assert_int_equal(bd_partition(s->ctx, sharded, &spmd), BD_OK);
  for (int stage = 0; stage < plan->stages; stage++) {
    const bd_memory *told = &plan->predicted[stage].memory;
    bd_memory laid;
    assert_int_equal(bd_memory_of_stage(s->ctx, spmd, stage, plan->schedule,
                                        (int)bd_plan_micro_batches(plan), plan->optimizer,
                                        plan->zero_axes, &laid),
                     BD_OK);
    assert_memory_equal(told->bytes, laid.bytes, sizeof laid.bytes);
    assert_int_equal(told->total_bytes, laid.total_bytes);
    assert_int_equal(laid.bytes[BD_SEGMENT_LIBRARY], library_mib << 20);
  }
}

// The library segment of long sequences is the search's business as well: what it leaves of a cap,
// and what a plan comes to. It has room for two heads, or for one where nothing else fits or is as
// fast.
static void test_long_sequences(void **unused) {
  (void)unused;
  session s = open_long();
  bd_plan plan;
  assert_int_equal(search(&s, 0, &plan), BD_OK);
  check_bytes(&s, &plan, 257);
  int64_t least = leanest_need(&s);
  assert_true(least > (int64_t)129 << 20 && least < (int64_t)257 << 20);
  assert_int_equal(search(&s, least, &plan), BD_OK);
  assert_int_equal(plan_bytes(&plan), least);
  check_bytes(&s, &plan, 129);
  assert_int_equal(search(&s, least - 1, &plan), BD_INFEASIBLE);
  // As lean a plan fits with room for two heads, but what one leaves makes others faster.
  assert_int_equal(search(&s, least + ((int64_t)128 << 20), &plan), BD_OK);
  check_bytes(&s, &plan, 129);
  assert_true(plan.gap >= 0);
  s.request.full = true;
  s.request.cap_bytes = least;
  assert_int_equal(bd_plan_search_full(s.ctx, s.train, &s.cluster, &s.request, &plan), BD_OK);
  assert_true(plan.one_head && plan_bytes(&plan) <= least);
  bd_ctx_destroy(s.ctx);
}

enum { PATIENT_SECONDS = 6 };

typedef struct patience {
  double until;               // seconds of the clock to which the first search is kept busy
  int first, second, bounded; // calls since the first search has a plan, and of the second one
} patience;

// The second search begins with less than the first one has bounded.
static void wait_with_plan(void *user, const bd_plan_progress *progress) {
  patience *p = user;
  p->second += p->second || progress->bounded < p->bounded;
  p->bounded = progress->bounded;
  if (p->second || isinf(progress->step_seconds)) return;
  p->first++;
  while (bd_clock_seconds() < p->until)
    nanosleep(&(struct timespec){0, 50000000}, NULL);
}

// A search that takes all the time that it has leaves some for the one with room for one head.
static void test_time_is_shared(void **unused) {
  (void)unused;
  session s = open_long();
  bd_plan plan;
  int64_t cap_bytes = leanest_need(&s) + ((int64_t)128 << 20);
  for (int busy = 0; busy < 2; busy++) {
    patience p = {bd_clock_seconds() + busy * 0.8 * PATIENT_SECONDS, 0, 0, 0};
    s.request.progress = wait_with_plan;
    s.request.progress_user = &p;
    s.request.limit_seconds = busy ? PATIENT_SECONDS : 600;
    assert_int_equal(search(&s, cap_bytes, &plan), BD_OK);
    assert_true(plan.one_head && p.second > 0);
    assert_true(busy ? p.first == 1 : p.first > 1);
  }
  bd_ctx_destroy(s.ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_room_never_hurts),       cmocka_unit_test(test_pins_never_help),
      cmocka_unit_test(test_leanest_is_the_border),  cmocka_unit_test(test_pins),
      cmocka_unit_test(test_threads_change_nothing), cmocka_unit_test(test_stops_when_told),
      cmocka_unit_test(test_long_sequences),         cmocka_unit_test(test_time_is_shared),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
