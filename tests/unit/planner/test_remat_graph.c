// Recomputation on graphs against the shortest path over all sets of resident values.
#include "planner/remat/graph.h"
#include "tests/unit/random.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { MOST_NODES = 9, SETS = 1 << MOST_NODES };

static void add_edge(bd_graph *g, int producer, int consumer) {
  bd_set_add(g->inputs + consumer, producer);
  bd_set_add(g->consumers + producer, consumer);
}

static bd_graph random_graph(bd_ctx *ctx) {
  bd_graph g = {.nodes = 3 + (int)random_below(MOST_NODES - 2), .words = 1};
  g.cost = BD_NEW_ARRAY(ctx->arena, double, g.nodes);
  g.bytes = BD_NEW_ARRAY(ctx->arena, int64_t, g.nodes);
  g.inputs = BD_NEW_ARRAY(ctx->arena, uint64_t, g.nodes);
  g.consumers = BD_NEW_ARRAY(ctx->arena, uint64_t, g.nodes);
  bool mirrored = random_below(2); // forward and backward, as of a chain
  for (int i = 0; i < g.nodes; i++) {
    g.cost[i] = random_below(12);
    g.bytes[i] = random_below(6);
    for (int k = 0; k < i; k++)
      if (mirrored ? k == i - 1 || (k == g.nodes - 1 - i) : random_below(3) == 0)
        add_edge(&g, k, i);
  }
  return g;
}

static int64_t bytes_of(const bd_graph *g, unsigned set) {
  int64_t bytes = 0;
  for (int i = 0; i < g->nodes; i++)
    if (set >> i & 1) bytes += g->bytes[i];
  return bytes;
}

// Relaxes one state; whether anything got cheaper.
static bool relax(const bd_graph *g, int64_t budget, double (*cost)[SETS], int next, unsigned set) {
  bool changed = false;
  for (int i = 0; i < g->nodes; i++) {
    unsigned bit = 1u << i;
    int then = next;
    double spent = cost[next][set];
    unsigned now = set ^ bit;
    if (!(set & bit)) {
      if (i > next || (g->inputs[i] & ~(uint64_t)set) || bytes_of(g, now) > budget) continue;
      spent += g->cost[i];
      then += i == next;
    }
    if (spent >= cost[then][now]) continue;
    cost[then][now] = spent;
    changed = true;
  }
  return changed;
}

static double exhaustive(const bd_graph *g, int64_t budget) {
  static double cost[MOST_NODES + 1][SETS];
  for (int next = 0; next <= g->nodes; next++)
    for (int set = 0; set < SETS; set++)
      cost[next][set] = INFINITY;
  cost[0][0] = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (int next = 0; next < g->nodes; next++)
      for (unsigned set = 0; set < 1u << g->nodes; set++)
        if (isfinite(cost[next][set])) changed |= relax(g, budget, cost, next, set);
  }
  double best = INFINITY;
  for (unsigned set = 0; set < 1u << g->nodes; set++)
    best = fmin(best, cost[g->nodes][set]);
  return best;
}

static void check_budget(bd_ctx *ctx, const bd_graph *g, int64_t budget, double best) {
  bd_remat_answer answer = {0};
  bd_status status = bd_graph_solve(ctx, g, budget, BD_NO_DEADLINE, &answer);
  assert_int_equal(status, isinf(best) ? BD_INFEASIBLE : BD_OK);
  if (status) return;
  double cost;
  int64_t peak;
  assert_true(fabs(answer.cost - best) < 1e-9 && fabs(answer.bound - best) < 1e-9);
  assert_int_equal(bd_graph_replay(ctx, g, &answer.steps, &cost, &peak), BD_OK);
  assert_true(fabs(cost - best) < 1e-9 && peak <= budget);
  // With no time the bound holds, and so does what there is.
  bd_remat_answer hurried = {0};
  status = bd_graph_solve(ctx, g, budget, (bd_deadline){0}, &hurried);
  assert_true(status == BD_OK || status == BD_EXHAUSTED);
  assert_true(hurried.bound <= best + 1e-9 && hurried.cost >= best - 1e-9);
}

static void test_equals_exhaustive(void **unused) {
  (void)unused;
  int recomputing = 0, impossible = 0;
  random_begin(2);
  for (int trial = 0; trial < 200; trial++) {
    bd_ctx *ctx = bd_ctx_create();
    bd_graph g = random_graph(ctx);
    int64_t full = bd_graph_full(&g), smallest = full;
    for (int64_t budget = full; budget >= 0; budget--) {
      double best = exhaustive(&g, budget);
      check_budget(ctx, &g, budget, best);
      if (budget == full) assert_true(best == bd_graph_base(&g));
      recomputing += isfinite(best) && best > bd_graph_base(&g);
      impossible += isinf(best);
      if (isinf(best)) break;
      smallest = budget;
    }
    assert_int_equal(bd_graph_smallest_budget(ctx, &g, BD_NO_DEADLINE), smallest);
    bd_ctx_destroy(ctx);
  }
  assert_true(recomputing > 200 && impossible > 100);
}

// The replay refuses a sequence with any one step left out, unless it only freed memory.
static void test_replay_refuses(void **unused) {
  (void)unused;
  random_begin(4);
  bd_ctx *ctx = bd_ctx_create();
  bd_graph g = random_graph(ctx);
  bd_remat_answer answer = {0};
  assert_int_equal(bd_graph_solve(ctx, &g, bd_graph_smallest_budget(ctx, &g, BD_NO_DEADLINE),
                                  BD_NO_DEADLINE, &answer),
                   BD_OK);
  double cost;
  int64_t peak;
  for (int skip = 0; skip < answer.steps.count; skip++) {
    if (answer.steps.step[skip].what == BD_GRAPH_DROP) continue;
    bd_remat_steps steps = {0};
    for (int i = 0; i < answer.steps.count; i++)
      if (i != skip)
        bd_remat_steps_add(ctx, &steps, answer.steps.step[i].what, answer.steps.step[i].at);
    assert_int_equal(bd_graph_replay(ctx, &g, &steps, &cost, &peak), BD_INTERNAL);
  }
  bd_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_equals_exhaustive),
      cmocka_unit_test(test_replay_refuses),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
