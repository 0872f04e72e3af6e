// Recomputation of chains against the list of all schedules that the dynamic program ranges over.
#include "ir/base/clock.h"
#include "tests/unit/planner/support_chain.h"
#include "tests/unit/random.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { MOST_LAYERS = 6 };

static bd_chain random_chain(bd_ctx *ctx) {
  int layers = 2 + (int)random_below(MOST_LAYERS - 1);
  bd_chain c = {.layers = layers,
                .forward = BD_NEW_ARRAY(ctx->arena, double, layers),
                .backward = BD_NEW_ARRAY(ctx->arena, double, layers),
                .value = BD_NEW_ARRAY(ctx->arena, int64_t, layers + 1),
                .tape = BD_NEW_ARRAY(ctx->arena, int64_t, layers)};
  for (int i = 0; i < layers; i++)
    c.value[i] = random_below(5);
  for (int i = 0; i + 1 < layers; i++) {
    c.forward[i] = random_below(10);
    c.backward[i] = random_below(20);
    c.tape[i] = c.value[i + 1] + random_below(8);
  }
  return c;
}

typedef struct schedule {
  double time;
  int64_t slots;
} schedule;

typedef struct schedules {
  bd_ctx *ctx;
  int count, capacity;
  schedule *item;
} schedules;

static void add(schedules *list, double time, int64_t slots) {
  if (list->count == list->capacity) {
    int capacity = list->capacity ? 2 * list->capacity : 16;
    list->item = bd_arena_grow(list->ctx->arena, list->item, (size_t)list->count, (size_t)capacity,
                               sizeof *list->item);
    list->capacity = capacity;
  }
  list->item[list->count++] = (schedule){time, slots};
}

// Every way to run s..t, told by its time and the slots it takes.
static schedules all_of(bd_ctx *ctx, const bd_chain *c, int s, int t) {
  schedules out = {.ctx = ctx};
  int64_t own = c->value[s] + c->tape[s];
  if (s == t) {
    add(&out, c->forward[s] + c->backward[s], own);
    return out;
  }
  int64_t sweep = sweep_slots(c, s, t);
  schedules rest = all_of(ctx, c, s + 1, t);
  for (int i = 0; i < rest.count; i++)
    add(&out, c->forward[s] + c->backward[s] + rest.item[i].time,
        larger(sweep, larger(own, c->tape[s] + rest.item[i].slots)));
  double ahead = 0;
  for (int k = s + 1; k <= t; k++) {
    ahead += c->forward[k - 1];
    schedules right = all_of(ctx, c, k, t), left = all_of(ctx, c, s, k - 1);
    for (int i = 0; i < right.count; i++)
      for (int j = 0; j < left.count; j++)
        add(&out, ahead + right.item[i].time + left.item[j].time,
            larger(sweep, larger(c->value[k] + right.item[i].slots, left.item[j].slots)));
  }
  return out;
}

static void check_budget(bd_ctx *ctx, const bd_chain *c, int64_t budget, double best) {
  bd_remat_answer answer = {0};
  bd_status status = bd_chain_solve(ctx, c, budget, 60, NULL, &answer);
  if (isinf(best)) {
    assert_int_equal(status, BD_INFEASIBLE);
    return;
  }
  double cost;
  int64_t peak;
  assert_int_equal(status, BD_OK);
  assert_true(answer.cost == best && answer.bound == best);
  assert_int_equal(bd_chain_replay(ctx, c, &answer.steps, &cost, &peak), BD_OK);
  assert_true(cost == best && peak <= budget);
}

static void test_equals_all_schedules(void **unused) {
  (void)unused;
  int recomputing = 0;
  random_begin(5);
  for (int trial = 0; trial < 150; trial++) {
    bd_ctx *ctx = bd_ctx_create();
    bd_chain c = random_chain(ctx);
    schedules all = all_of(ctx, &c, 0, c.layers - 1);
    int64_t least = INT64_MAX, most = 0;
    for (int i = 0; i < all.count; i++) {
      least = all.item[i].slots < least ? all.item[i].slots : least;
      most = larger(most, all.item[i].slots);
    }
    assert_int_equal(bd_chain_smallest_budget(ctx, &c), least);
    for (int64_t budget = least > 1 ? least - 1 : 1; budget <= most + 1; budget++) {
      double best = INFINITY;
      for (int i = 0; i < all.count; i++)
        if (all.item[i].slots <= budget) best = fmin(best, all.item[i].time);
      check_budget(ctx, &c, budget, best);
      recomputing += isfinite(best) && best > bd_chain_base(&c);
    }
    bd_ctx_destroy(ctx);
  }
  assert_true(recomputing > 300);
}

// In larger units: the sequence fits the budget in slots and the bound is below the optimum.
static void test_coarse(void **unused) {
  (void)unused;
  int gaps = 0;
  random_begin(9);
  for (int trial = 0; trial < 60; trial++) {
    bd_ctx *ctx = bd_ctx_create();
    bd_chain c = random_chain(ctx);
    for (int i = 0; i <= c.layers; i++)
      c.value[i] = c.value[i] * 97 + (c.value[i] ? random_below(90) : 0);
    for (int i = 0; i + 1 < c.layers; i++)
      c.tape[i] = c.value[i + 1] + random_below(800);
    int64_t budget = bd_chain_smallest_budget(ctx, &c) * 5 / 4 + 1;
    bd_remat_answer exact = {0}, coarse = {0};
    assert_int_equal(bd_chain_solve(ctx, &c, budget, 60, NULL, &exact), BD_OK);
    double cells = c.layers * (c.layers + 1) / 2.0;
    double seconds = 150 * cells * (c.layers + 2) / 3 / 2e8; // 150 units
    bd_status status = bd_chain_solve(ctx, &c, budget, seconds, NULL, &coarse);
    assert_int_equal(status, BD_OK);
    assert_true(coarse.bound <= exact.cost);
    double cost;
    int64_t peak;
    assert_int_equal(bd_chain_replay(ctx, &c, &coarse.steps, &cost, &peak), BD_OK);
    assert_true(peak <= budget && cost >= exact.cost);
    gaps += coarse.bound < coarse.cost;
    bd_ctx_destroy(ctx);
  }
  assert_true(gaps > 0);
}

// A search of hours ends at its limit, with steps that fit and a bound.
static void test_limit(void **unused) {
  (void)unused;
  enum { LAYERS = 300 };
  const double limit = 0.3, patience = 20; // of slow machines
  bd_ctx *ctx = bd_ctx_create();
  bd_chain c = {.layers = LAYERS,
                .forward = BD_NEW_ARRAY(ctx->arena, double, LAYERS),
                .backward = BD_NEW_ARRAY(ctx->arena, double, LAYERS),
                .value = BD_NEW_ARRAY(ctx->arena, int64_t, LAYERS + 1),
                .tape = BD_NEW_ARRAY(ctx->arena, int64_t, LAYERS)};
  random_begin(5);
  for (int i = 0; i + 1 < LAYERS; i++) {
    c.forward[i] = 1 + random_below(90);
    c.backward[i] = 2 * c.forward[i];
    c.value[i] = 1000 + random_below(100000);
    c.tape[i] = 110000 + random_below(300000);
  }
  bd_remat_answer answer = {0};
  double begun = bd_clock_seconds(), cost;
  int64_t budget = 40000000, peak;
  assert_int_equal(bd_chain_solve(ctx, &c, budget, limit, NULL, &answer), BD_OK);
  assert_true(bd_clock_seconds() - begun < patience);
  assert_true(answer.cut && answer.bound >= bd_chain_base(&c));
  assert_int_equal(bd_chain_replay(ctx, &c, &answer.steps, &cost, &peak), BD_OK);
  assert_true(peak <= budget && cost == answer.cost && cost >= answer.bound);
  bd_ctx_destroy(ctx);
}

// The replay refuses what lacks an input, what is left over, and what ends early.
static void test_replay_refuses(void **unused) {
  (void)unused;
  random_begin(3);
  bd_ctx *ctx = bd_ctx_create();
  bd_chain c = random_chain(ctx);
  bd_remat_answer answer = {0};
  assert_int_equal(bd_chain_solve(ctx, &c, bd_chain_smallest_budget(ctx, &c), 60, NULL, &answer),
                   BD_OK);
  double cost;
  int64_t peak;
  for (int skip = 0; skip < answer.steps.count; skip++) {
    bd_remat_steps steps = {0};
    for (int i = 0; i < answer.steps.count; i++)
      if (i != skip)
        bd_remat_steps_add(ctx, &steps, answer.steps.step[i].what, answer.steps.step[i].at);
    bd_status status = bd_chain_replay(ctx, &c, &steps, &cost, &peak);
    bool harmless =
        answer.steps.step[skip].what == BD_CHAIN_DROP && c.value[answer.steps.step[skip].at] == 0;
    assert_int_equal(status, harmless ? BD_OK : BD_INTERNAL);
  }
  bd_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_equals_all_schedules),
      cmocka_unit_test(test_coarse),
      cmocka_unit_test(test_limit),
      cmocka_unit_test(test_replay_refuses),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
