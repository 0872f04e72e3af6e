// The layer ILP against exhaustive search on random small problems.
#include "planner/choice.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static uint64_t state;
static unsigned random_below(unsigned limit) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)(state >> 33) % limit;
}

// Classes of options of one end of an edge; every class has a member when there are that many.
static int *random_classes(bd_ctx *ctx, int options, int *out_count) {
  int *class_of = BD_NEW_ARRAY(ctx->arena, int, options);
  *out_count = 1 + (int)random_below((unsigned)options);
  for (int o = 0; o < options; o++)
    class_of[o] = o < *out_count ? o : (int)random_below((unsigned)*out_count);
  return class_of;
}

static bd_choice_problem random_problem(bd_ctx *ctx) {
  bd_choice_problem p = {.nodes = 2 + (int)random_below(5)};
  p.node = BD_NEW_ARRAY(ctx->arena, bd_choice_node, p.nodes);
  p.edge = BD_NEW_ARRAY(ctx->arena, bd_choice_edge, 20);
  double total = 0;
  for (int i = 0; i < p.nodes; i++) {
    bd_choice_node *node = &p.node[i];
    node->options = 1 + (int)random_below(4);
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

static double exhaustive(const bd_choice_problem *p) {
  int option[8] = {0};
  double best = INFINITY;
  for (;;) {
    double cost, usage;
    bd_choice_evaluate(p, option, &cost, &usage);
    if (usage <= p->budget && cost < best) best = cost;
    int i = 0;
    while (i < p->nodes && ++option[i] == p->node[i].options)
      option[i++] = 0;
    if (i == p->nodes) return best;
  }
}

static void test_equals_exhaustive(void **unused) {
  (void)unused;
  int infeasible = 0;
  for (int trial = 0; trial < 400; trial++) {
    state = 77u + (uint64_t)trial;
    bd_ctx *ctx = bd_ctx_create();
    bd_choice_problem p = random_problem(ctx);
    bd_choice choice;
    assert_int_equal(bd_choice_solve(ctx, &p, 10, &choice), BD_OK);
    double best = exhaustive(&p);
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

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_equals_exhaustive)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
