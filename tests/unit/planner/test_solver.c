// Integer programs: every solver that is built in against exhaustive search, and against each
// other.
#include "planner/solver.h"
#include "tests/unit/random.h"
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

enum { COLUMNS = 6, ROWS = 5, HIGHEST = 3 };

// Integral columns of 0 to HIGHEST; rows with either end, both, or equal ends.
static bd_program random_program(bd_ctx *ctx) {
  bd_program p = {0};
  int columns = 2 + (int)random_below(COLUMNS - 1);
  for (int i = 0; i < columns; i++)
    bd_program_add_column(ctx, &p, (double)random_below(41) - 15, 0, 1 + random_below(HIGHEST),
                          true);
  int rows = (int)random_below(ROWS + 1);
  for (int r = 0; r < rows; r++) {
    double low = (double)random_below(12) - 4, high = low + random_below(6);
    unsigned kind = random_below(4);
    if (kind == 0) low = -INFINITY;
    if (kind == 1) high = INFINITY;
    bd_program_add_row(ctx, &p, low, high);
    for (int i = 0; i < columns; i++)
      if (random_below(3)) bd_program_add_entry(ctx, &p, r, i, (double)random_below(9) - 3);
  }
  return p;
}

static bool satisfies(const bd_program *p, const double *x) {
  double sum[ROWS] = {0};
  for (int64_t e = 0; e < p->entries; e++)
    sum[p->entry_row[e]] += p->entry_value[e] * x[p->entry_column[e]];
  for (int r = 0; r < p->rows; r++)
    if (sum[r] < p->row_lower[r] - 1e-6 || sum[r] > p->row_upper[r] + 1e-6) return false;
  return true;
}

static double cost_of(const bd_program *p, const double *x) {
  double cost = 0;
  for (int i = 0; i < p->columns; i++)
    cost += p->cost[i] * x[i];
  return cost;
}

static double exhaustive(const bd_program *p) {
  double best = INFINITY, x[COLUMNS] = {0};
  for (;;) {
    if (satisfies(p, x)) best = fmin(best, cost_of(p, x));
    int i = 0;
    for (; i < p->columns && x[i] == p->upper[i]; i++)
      x[i] = 0;
    if (i == p->columns) return best;
    x[i]++;
  }
}

static void check(bd_ctx *ctx, const bd_program *p, double best) {
  bd_solution out;
  assert_int_equal(bd_solver_run(ctx, p, 60, INFINITY, &out), BD_OK);
  assert_int_equal(out.outcome, isinf(best) ? BD_SOLVER_INFEASIBLE : BD_SOLVER_OPTIMAL);
  if (isinf(best)) return;
  assert_true(fabs(out.cost - best) < 1e-5 && out.bound <= best + 1e-5);
  assert_true(satisfies(p, out.values) && fabs(cost_of(p, out.values) - best) < 1e-5);
  // A cutoff above the optimum leaves it; one below leaves nothing.
  assert_int_equal(bd_solver_run(ctx, p, 60, best + 0.5, &out), BD_OK);
  assert_int_equal(out.outcome, BD_SOLVER_OPTIMAL);
  assert_true(fabs(out.cost - best) < 1e-5);
  assert_int_equal(bd_solver_run(ctx, p, 60, best - 0.5, &out), BD_OK);
  assert_int_equal(out.outcome, BD_SOLVER_INFEASIBLE);
}

static void try_programs(bd_ctx *ctx, bd_solver_kind solver, uint64_t seed, int count) {
  random_begin(seed);
  for (int i = 0; i < count; i++) {
    bd_program p = random_program(ctx);
    p.solver = solver;
    check(ctx, &p, exhaustive(&p));
    bd_arena_reset(ctx->arena);
  }
}

static void integral(bd_solver_kind solver) {
  bd_ctx *ctx = bd_ctx_create();
  try_programs(ctx, solver, 1, 400);
  bd_ctx_destroy(ctx);
}

// The optimum of a mix of integral and real columns is the same from all solvers.
static void test_mixed(void **unused) {
  (void)unused;
  bd_ctx *ctx = bd_ctx_create();
  random_begin(7);
  for (int i = 0; i < 200; i++) {
    bd_program p = random_program(ctx);
    for (int c = 0; c < p.columns; c++)
      p.integral[c] = random_below(2);
    bd_solution first, out;
    assert_int_equal(bd_solver_run(ctx, &p, 60, INFINITY, &first), BD_OK);
    for (int kind = 1; bd_solver_names[kind]; kind++) {
      p.solver = (bd_solver_kind)kind;
      if (!bd_solver_built_in(p.solver)) continue;
      assert_int_equal(bd_solver_run(ctx, &p, 60, INFINITY, &out), BD_OK);
      assert_int_equal(out.outcome, first.outcome);
      if (out.values) assert_true(fabs(out.cost - first.cost) < 1e-5);
    }
  }
  bd_ctx_destroy(ctx);
}

// A knapsack with many items of nearly equal worth: nobody is done in no time.
static bd_program hard_program(bd_ctx *ctx, uint64_t seed) {
  random_begin(seed);
  bd_program p = {0};
  for (int r = 0; r < 8; r++)
    bd_program_add_row(ctx, &p, -INFINITY, 6000);
  for (int i = 0; i < 120; i++) {
    bd_program_add_column(ctx, &p, -1000.0 - random_below(50), 0, 1, true);
    for (int r = 0; r < 8; r++)
      bd_program_add_entry(ctx, &p, r, i, 100 + random_below(97));
  }
  return p;
}

static void limited(bd_solver_kind solver) {
  bd_ctx *ctx = bd_ctx_create();
  bd_program p = hard_program(ctx, 3);
  p.solver = solver;
  bd_solution out;
  assert_int_equal(bd_solver_run(ctx, &p, 0.05, INFINITY, &out), BD_OK);
  assert_int_not_equal(out.outcome, BD_SOLVER_INFEASIBLE);
  if (out.values) assert_true(out.bound <= out.cost + 1e-6 * fabs(out.cost));
  bd_ctx_destroy(ctx);
}

static void *work(void *solver) {
  bd_ctx *ctx = bd_ctx_create();
  try_programs(ctx, *(bd_solver_kind *)solver, 11, 60);
  bd_ctx_destroy(ctx);
  bd_solver_leave_thread();
  return NULL;
}

static void in_threads(bd_solver_kind solver) {
  pthread_t threads[3];
  for (int i = 0; i < 3; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, work, &solver), 0);
  for (int i = 0; i < 3; i++)
    pthread_join(threads[i], NULL);
}

static void for_all(void (*test)(bd_solver_kind solver)) {
  for (int kind = 0; bd_solver_names[kind]; kind++)
    if (bd_solver_built_in((bd_solver_kind)kind)) test((bd_solver_kind)kind);
}

static void test_integral(void **unused) {
  (void)unused;
  for_all(integral);
}
static void test_limited(void **unused) {
  (void)unused;
  for_all(limited);
}
static void test_in_threads(void **unused) {
  (void)unused;
  for_all(in_threads);
}

// Counts and a cutoff, then columns (cost, ends, integral), rows (ends), entries.
static bd_program read_program(bd_ctx *ctx, const char *path, double *out_cutoff) {
  bd_program p = {0};
  FILE *file = fopen(path, "r");
  int columns, rows, entries, row, column, integral;
  double cost, low, high;
  assert_non_null(file);
  assert_int_equal(fscanf(file, "%d %d %d %lf", &columns, &rows, &entries, out_cutoff), 4);
  for (int i = 0; i < columns; i++) {
    assert_int_equal(fscanf(file, "%lf %lf %lf %d", &cost, &low, &high, &integral), 4);
    bd_program_add_column(ctx, &p, cost, low, high, integral);
  }
  for (int i = 0; i < rows; i++) {
    assert_int_equal(fscanf(file, "%lf %lf", &low, &high), 2);
    bd_program_add_row(ctx, &p, low, high);
  }
  for (int i = 0; i < entries; i++) {
    assert_int_equal(fscanf(file, "%d %d %lf", &row, &column, &cost), 3);
    bd_program_add_entry(ctx, &p, row, column, cost);
  }
  fclose(file);
  return p;
}

// A pipeline's program on which the simplex method of GLPK 5.0 fails an assertion in the units that
// are tried first: it is solved all the same, and the solvers do not contradict each other.
static void test_assertion(void **unused) {
  (void)unused;
  bd_ctx *ctx = bd_ctx_create();
  double cutoff, bound = -INFINITY, cost = INFINITY;
  bd_program p = read_program(ctx, "tests/data/programs/assertion.txt", &cutoff);
  for (int kind = 0; bd_solver_names[kind]; kind++) {
    bd_solution out;
    p.solver = (bd_solver_kind)kind;
    if (!bd_solver_built_in(p.solver)) continue;
    assert_int_equal(bd_solver_run(ctx, &p, 60, cutoff, &out), BD_OK);
    assert_int_not_equal(out.outcome, BD_SOLVER_UNKNOWN);
    if (out.values) cost = fmin(cost, out.cost);
    bound = fmax(bound, fmin(out.bound, cutoff));
  }
  assert_true(bound > 0);
  assert_true(bound <= fmin(cost, cutoff) * (1 + 1e-6));
  bd_ctx_destroy(ctx);
}

// A pipeline's program on which glp_intopt of GLPK 5.0 goes round in circles for ever: the primal
// simplex method ends a node's program where the dual one loses its numbers.
static void test_circles(void **unused) {
  (void)unused;
  bd_ctx *ctx = bd_ctx_create();
  double cutoff;
  bd_program p = read_program(ctx, "tests/data/programs/circles.txt", &cutoff);
  for (int kind = 0; bd_solver_names[kind]; kind++) {
    bd_solution out;
    p.solver = (bd_solver_kind)kind;
    if (!bd_solver_built_in(p.solver)) continue;
    assert_int_equal(bd_solver_run(ctx, &p, 10, cutoff, &out), BD_OK);
    assert_int_equal(out.outcome, BD_SOLVER_INFEASIBLE);
    assert_true(out.bound >= cutoff);
    // There is something a little above it.
    assert_int_equal(bd_solver_run(ctx, &p, 10, cutoff * 1.005, &out), BD_OK);
    assert_non_null(out.values);
    assert_true(out.cost >= cutoff && out.bound <= out.cost);
  }
  bd_ctx_destroy(ctx);
}

static void test_not_built_in(void **unused) {
  (void)unused;
  bd_ctx *ctx = bd_ctx_create();
  bd_program p = {0};
  bd_solution out;
  bd_program_add_column(ctx, &p, 1, 1, 2, true);
  p.solver = BD_SOLVER_CBC;
  bd_status status = bd_solver_run(ctx, &p, 60, INFINITY, &out);
  assert_int_equal(status, bd_solver_built_in(BD_SOLVER_CBC) ? BD_OK : BD_UNSUPPORTED);
  bd_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_integral),     cmocka_unit_test(test_mixed),
      cmocka_unit_test(test_limited),      cmocka_unit_test(test_in_threads),
      cmocka_unit_test(test_not_built_in), cmocka_unit_test(test_assertion),
      cmocka_unit_test(test_circles),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
