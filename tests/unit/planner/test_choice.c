// The layer ILP against exhaustive search on random small problems.
#include "planner/choice/eliminate.h"
#include "tests/unit/planner/support_choice.h"
#include "tests/unit/random.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

// Classes of options of one end of an edge; every class has a member when there are that many.
static int *random_classes(bd_ctx *ctx, int options, int *out_count) {
  int *class_of = BD_NEW_ARRAY(ctx->arena, int, options);
  *out_count = 1 + (int)random_below((unsigned)options);
  for (int o = 0; o < options; o++)
    class_of[o] = o < *out_count ? o : (int)random_below((unsigned)*out_count);
  return class_of;
}

static bd_choice_problem random_problem_of(bd_ctx *ctx, int nodes, int most_options) {
  bd_choice_problem p = {.nodes = nodes};
  p.node = BD_NEW_ARRAY(ctx->arena, bd_choice_node, p.nodes);
  p.edge = BD_NEW_ARRAY(ctx->arena, bd_choice_edge, 20);
  double total = 0;
  for (int i = 0; i < p.nodes; i++) {
    bd_choice_node *node = &p.node[i];
    node->options = 1 + (int)random_below((unsigned)most_options);
    node->cost = BD_NEW_ARRAY(ctx->arena, double, node->options);
    node->usage = BD_NEW_ARRAY(ctx->arena, double, node->options);
    for (int o = 0; o < node->options; o++) {
      node->cost[o] = random_below(9) == 0 ? INFINITY : random_below(20);
      node->usage[o] = random_below(10);
      total += node->usage[o] / node->options;
    }
  }
  for (int a = 0; a < p.nodes; a++)
    for (int b = a + 1; b < p.nodes; b++) {
      if (random_below(2)) continue;
      bd_choice_edge *edge = &p.edge[p.edges++];
      *edge = (bd_choice_edge){.a = a, .b = b};
      edge->class_a = random_classes(ctx, p.node[a].options, &edge->classes_a);
      edge->class_b = random_classes(ctx, p.node[b].options, &edge->classes_b);
      int count = edge->classes_a * edge->classes_b;
      edge->cost = BD_NEW_ARRAY(ctx->arena, double, count);
      for (int i = 0; i < count; i++)
        edge->cost[i] = random_below(7) == 0 ? INFINITY : random_below(15);
    }
  p.budget = random_below(4) ? floor(total * (0.4 + 0.1 * random_below(8))) : INFINITY;
  return p;
}

static bd_choice_problem random_problem(bd_ctx *ctx) {
  return random_problem_of(ctx, 2 + (int)random_below(5), 4);
}

static void test_equals_exhaustive(void **unused) {
  (void)unused;
  int infeasible = 0;
  for (int trial = 0; trial < 400; trial++) {
    random_begin(77u + (uint64_t)trial);
    bd_ctx *ctx = bd_ctx_create();
    bd_choice_problem p = random_problem(ctx);
    bd_choice choice;
    assert_int_equal(bd_choice_solve(ctx, &p, 10, &choice), BD_OK);
    double best = exhaustive_choice(ctx, &p);
    assert_int_equal(choice.feasible, isfinite(best));
    if (choice.feasible) {
      assert_true(choice.optimal);
      assert_true(fabs(choice.cost - best) < 1e-6);
      assert_true(choice.bound <= best + 1e-6);
      assert_true(choice.usage <= p.budget);
    } else {
      infeasible++;
    }
    bd_ctx_destroy(ctx);
  }
  assert_in_range(infeasible, 10, 200);
}

// Nodes of many options, whose classes are ranked, and of fewer.
static void test_many_options(void **unused) {
  (void)unused;
  for (int trial = 0; trial < 60; trial++) {
    random_begin(4321u + (uint64_t)trial);
    bd_ctx *ctx = bd_ctx_create();
    bd_choice_problem p = random_problem_of(ctx, 3, 90);
    int option[3];
    p.budget = INFINITY;
    double best = exhaustive_choice(ctx, &p), cost, usage;
    bd_elimination *e = bd_elimination_create(ctx, &p, NULL, -1);
    assert_non_null(e);
    bool any = bd_elimination_run(e, 1, 0, option);
    assert_int_equal(any, isfinite(best));
    if (any) {
      bd_choice_evaluate(&p, option, &cost, &usage);
      assert_true(fabs(cost - best) < 1e-9 && fabs(bd_elimination_bound(e) - best) < 1e-9);
    }
    bd_ctx_destroy(ctx);
  }
}

// A relaxed elimination's bound holds, its choice costs what it says, and without need it is exact.
static void test_relaxed_bounds_hold(void **unused) {
  (void)unused;
  int loose = 0;
  for (int trial = 0; trial < 1200; trial++) {
    random_begin(1234u + (uint64_t)trial);
    bd_ctx *ctx = bd_ctx_create();
    bd_choice_problem p = random_problem(ctx);
    p.budget = INFINITY;
    int option[8], most = 4 << trial % 4 * 2;
    double best = exhaustive_choice(ctx, &p), cost, usage;
    bd_elimination *e = bd_elimination_relax(ctx, &p, trial % 2 ? p.nodes - 1 : -1, most);
    assert_non_null(e);
    bool any = bd_elimination_run(e, 1, 0, option);
    assert_true(any || isinf(best));
    double bound = any ? bd_elimination_bound(e) : INFINITY;
    assert_true(bound <= best + 1e-9);
    if (any) {
      bd_choice_evaluate(&p, option, &cost, &usage);
      assert_true(cost >= best - 1e-9);
    }
    loose += bound < best - 1e-9;
    for (int o = 0; any && trial % 2 && o < p.node[p.nodes - 1].options; o++) {
      double least = bd_elimination_choose(e, o, option);
      if (!isfinite(least)) continue;
      bd_choice_evaluate(&p, option, &cost, &usage);
      assert_int_equal(option[p.nodes - 1], o);
      assert_true(least <= cost + 1e-9);
    }
    e = bd_elimination_relax(ctx, &p, -1, 1 << 20);
    any = bd_elimination_run(e, 1, 0, option);
    assert_int_equal(any, isfinite(best));
    if (any) assert_true(fabs(bd_elimination_bound(e) - best) < 1e-9);
    bd_ctx_destroy(ctx);
  }
  assert_in_range(loose, 20, 1100);
}

// Every pair of many nodes: no elimination order has tables of a reasonable size.
static bd_choice_problem dense_problem(bd_ctx *ctx, int nodes, int options) {
  bd_choice_problem p = {.nodes = nodes, .budget = INFINITY};
  p.node = BD_NEW_ARRAY(ctx->arena, bd_choice_node, nodes);
  p.edge = BD_NEW_ARRAY(ctx->arena, bd_choice_edge, nodes * nodes);
  for (int i = 0; i < nodes; i++) {
    p.node[i].options = options;
    p.node[i].cost = BD_NEW_ARRAY(ctx->arena, double, options);
    p.node[i].usage = BD_NEW_ARRAY(ctx->arena, double, options);
    for (int o = 0; o < options; o++) {
      p.node[i].cost[o] = random_below(200);
      p.node[i].usage[o] = random_below(10);
    }
    for (int j = 0; j < i; j++) {
      bd_choice_edge *edge = &p.edge[p.edges++];
      *edge = (bd_choice_edge){.a = i, .b = j, .classes_a = options, .classes_b = options};
      edge->class_a = edge->class_b = BD_NEW_ARRAY(ctx->arena, int, options);
      for (int o = 0; o < options; o++)
        edge->class_a[o] = o;
      edge->cost = BD_NEW_ARRAY(ctx->arena, double, options *options);
      for (int k = 0; k < options * options; k++)
        edge->cost[k] = random_below(20);
    }
  }
  return p;
}

static void test_dense_has_bound(void **unused) {
  (void)unused;
  bd_ctx *ctx = bd_ctx_create();
  bd_choice free_choice, choice;
  random_begin(5);
  bd_choice_problem p = dense_problem(ctx, 14, 12);
  assert_null(bd_elimination_create(ctx, &p, NULL, -1));
  assert_int_equal(bd_choice_solve(ctx, &p, 1, &free_choice), BD_OK);
  assert_true(free_choice.feasible);
  assert_true(free_choice.bound > 0 && free_choice.bound <= free_choice.cost);
  p.budget = free_choice.usage * 0.7;
  assert_int_equal(bd_choice_solve(ctx, &p, 1, &choice), BD_OK);
  assert_true(choice.feasible && choice.usage <= p.budget);
  assert_true(choice.bound >= free_choice.bound * (1 - 1e-9) && choice.bound <= choice.cost);
  p.budget = -1;
  assert_int_equal(bd_choice_solve(ctx, &p, 1, &choice), BD_OK);
  assert_false(choice.feasible);
  assert_true(isinf(choice.bound));
  bd_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_equals_exhaustive),
                                     cmocka_unit_test(test_many_options),
      cmocka_unit_test(test_relaxed_bounds_hold),
      cmocka_unit_test(test_dense_has_bound),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
