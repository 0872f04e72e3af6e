#include "planner/choice/eliminate.h"
#include <math.h>
#include <string.h>

enum {
  PRICE_ROUNDS = 40,
  DESCENTS = 20,
  RELAXED_VISITS = 1 << 18,
  OPTION_LIMIT = 200,   // of a node, for looking for dominated ones
  PROGRAM_LIMIT = 1500, // pair variables that are still handed to the integer solver
};

void bd_choice_evaluate(const bd_choice_problem *problem, const int *option, double *out_cost,
                        double *out_usage) {
  double cost = 0, usage = 0;
  for (int i = 0; i < problem->nodes; i++) {
    cost += problem->node[i].cost[option[i]];
    usage += problem->node[i].usage[option[i]];
  }
  for (int e = 0; e < problem->edges; e++) {
    const bd_choice_edge *edge = &problem->edge[e];
    cost += bd_choice_edge_cost(edge, option[edge->a], option[edge->b]);
  }
  *out_cost = cost;
  *out_usage = usage;
}

static double edge_cost(const bd_choice_edge *edge, int node, int own, int other) {
  return node == edge->a ? bd_choice_edge_cost(edge, own, other)
                         : bd_choice_edge_cost(edge, other, own);
}

typedef struct reduction {
  const bd_choice_problem *problem;
  bool **live;    // per node and option
  int **incident; // per node: its edges, ending with -1
} reduction;

// Whether option `b` of a node is never worse than option `a`, whatever the neighbours do.
static bool dominates(const reduction *r, int node, int b, int a) {
  const bd_choice_node *n = &r->problem->node[node];
  if (!(n->cost[b] <= n->cost[a]) || n->usage[b] > n->usage[a]) return false;
  for (const int *e = r->incident[node]; *e >= 0; e++) {
    const bd_choice_edge *edge = &r->problem->edge[*e];
    int other = edge->a == node ? edge->b : edge->a;
    for (int o = 0; o < r->problem->node[other].options; o++) {
      if (!r->live[other][o]) continue;
      if (!(edge_cost(edge, node, b, o) <= edge_cost(edge, node, a, o))) return false;
    }
  }
  return true;
}

static bool reduce_node(reduction *r, int node) {
  bool changed = false;
  const bd_choice_node *n = &r->problem->node[node];
  for (int a = 0; a < n->options; a++) {
    if (!r->live[node][a]) continue;
    bool dead = isinf(n->cost[a]);
    for (int b = 0; b < n->options && !dead; b++)
      dead = b != a && r->live[node][b] && dominates(r, node, b, a);
    if (!dead) continue;
    r->live[node][a] = false;
    changed = true;
  }
  return changed;
}

static reduction reduce(bd_ctx *ctx, const bd_choice_problem *problem) {
  reduction r = {.problem = problem};
  r.live = BD_NEW_ARRAY(ctx->arena, bool *, problem->nodes);
  r.incident = BD_NEW_ARRAY(ctx->arena, int *, problem->nodes);
  int *degree = BD_NEW_ARRAY(ctx->arena, int, problem->nodes);
  for (int e = 0; e < problem->edges; e++) {
    degree[problem->edge[e].a]++;
    degree[problem->edge[e].b]++;
  }
  for (int i = 0; i < problem->nodes; i++) {
    r.live[i] = BD_NEW_ARRAY(ctx->arena, bool, problem->node[i].options);
    memset(r.live[i], true, (size_t)problem->node[i].options);
    r.incident[i] = BD_NEW_ARRAY(ctx->arena, int, degree[i] + 1);
    r.incident[i][degree[i]] = -1;
  }
  for (int e = problem->edges - 1; e >= 0; e--) {
    int a = problem->edge[e].a, b = problem->edge[e].b;
    r.incident[a][--degree[a]] = e;
    r.incident[b][--degree[b]] = e;
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (int i = 0; i < problem->nodes; i++)
      changed |= reduce_node(&r, i);
  }
  return r;
}

// The integer program: x per live option, y per live pair of an edge that costs anything.
static void add_nodes(bd_ctx *ctx, const reduction *r, bd_program *program, int **column) {
  const bd_choice_problem *problem = r->problem;
  int budget =
      isinf(problem->budget) ? -1 : bd_program_add_row(ctx, program, -INFINITY, problem->budget);
  for (int i = 0; i < problem->nodes; i++) {
    int row = bd_program_add_row(ctx, program, 1, 1);
    column[i] = BD_NEW_ARRAY(ctx->arena, int, problem->node[i].options);
    for (int o = 0; o < problem->node[i].options; o++) {
      column[i][o] = -1;
      if (!r->live[i][o]) continue;
      column[i][o] = bd_program_add_column(ctx, program, problem->node[i].cost[o], 0, 1, true);
      bd_program_add_entry(ctx, program, row, column[i][o], 1);
      if (budget >= 0 && problem->node[i].usage[o] != 0)
        bd_program_add_entry(ctx, program, budget, column[i][o], problem->node[i].usage[o]);
    }
  }
}

// An edge on which nothing costs needs no variables.
static bool edge_is_free(const reduction *r, const bd_choice_edge *edge) {
  for (int a = 0; a < r->problem->node[edge->a].options; a++)
    for (int b = 0; r->live[edge->a][a] && b < r->problem->node[edge->b].options; b++)
      if (r->live[edge->b][b] && edge_cost(edge, edge->a, a, b) != 0) return false;
  return true;
}

// sum over b of y[a][b] = x[a] and sum over a of y[a][b] = x[b].
static void add_edge(bd_ctx *ctx, const reduction *r, bd_program *program,
                     const bd_choice_edge *edge, int **column) {
  int options_a = r->problem->node[edge->a].options, options_b = r->problem->node[edge->b].options;
  int *row_b = BD_NEW_ARRAY(ctx->arena, int, options_b);
  for (int b = 0; b < options_b; b++) {
    if (!r->live[edge->b][b]) continue;
    row_b[b] = bd_program_add_row(ctx, program, 0, 0);
    bd_program_add_entry(ctx, program, row_b[b], column[edge->b][b], -1);
  }
  for (int a = 0; a < options_a; a++) {
    if (!r->live[edge->a][a]) continue;
    int row_a = bd_program_add_row(ctx, program, 0, 0);
    bd_program_add_entry(ctx, program, row_a, column[edge->a][a], -1);
    for (int b = 0; b < options_b; b++) {
      double cost = edge_cost(edge, edge->a, a, b);
      if (!r->live[edge->b][b] || isinf(cost)) continue;
      int pair = bd_program_add_column(ctx, program, cost, 0, 1, false);
      bd_program_add_entry(ctx, program, row_a, pair, 1);
      bd_program_add_entry(ctx, program, row_b[b], pair, 1);
    }
  }
}

static void read_choice(bd_ctx *ctx, const reduction *r, int *const *column,
                        const bd_solution *solution, bd_choice *out) {
  out->option = BD_NEW_ARRAY(ctx->arena, int, r->problem->nodes);
  for (int i = 0; i < r->problem->nodes; i++)
    for (int o = 0; o < r->problem->node[i].options; o++)
      if (column[i][o] >= 0 && solution->values[column[i][o]] > 0.5) out->option[i] = o;
  bd_choice_evaluate(r->problem, out->option, &out->cost, &out->usage);
  out->feasible = true;
}

// Pair variables of the integer program.
static int64_t pair_count(const reduction *r) {
  int64_t pairs = 0;
  for (int e = 0; e < r->problem->edges; e++) {
    int64_t counts[2] = {0, 0}, ends[2] = {r->problem->edge[e].a, r->problem->edge[e].b};
    for (int end = 0; end < 2; end++)
      for (int o = 0; o < r->problem->node[ends[end]].options; o++)
        counts[end] += r->live[ends[end]][o];
    pairs += counts[0] * counts[1];
  }
  return pairs;
}

static bd_status solve_program(bd_ctx *ctx, const reduction *r, double limit_seconds, double cutoff,
                               bd_choice *out) {
  const bd_choice_problem *problem = r->problem;
  int **column = BD_NEW_ARRAY(ctx->arena, int *, problem->nodes);
  bd_program program = {.solver = problem->solver};
  add_nodes(ctx, r, &program, column);
  if (!program.columns) return BD_OK;
  for (int e = 0; e < problem->edges; e++)
    if (!edge_is_free(r, &problem->edge[e])) add_edge(ctx, r, &program, &problem->edge[e], column);
  bd_solution solution;
  BD_TRY(bd_solver_run(ctx, &program, limit_seconds, cutoff, &solution));
  out->bound = fmax(out->bound, solution.bound);
  if (solution.outcome == BD_SOLVER_INFEASIBLE) out->bound = cutoff;
  if (solution.values) read_choice(ctx, r, column, &solution, out);
  out->optimal = solution.outcome == BD_SOLVER_OPTIMAL ||
                 (solution.outcome == BD_SOLVER_INFEASIBLE && out->feasible);
  return BD_OK;
}

static double weighted(double weight, double value) {
  return isinf(value) ? value : weight * value;
}

// A node's cheapest option when the others stay.
static int best_alone(const bd_choice_problem *problem, double cost_weight, double usage_weight,
                      const int *option, int node, double *sum) {
  const bd_choice_node *n = &problem->node[node];
  int best = option[node];
  for (int o = 0; o < n->options; o++)
    sum[o] = weighted(cost_weight, n->cost[o]) + usage_weight * n->usage[o];
  for (int e = 0; e < problem->edges; e++) {
    const bd_choice_edge *edge = &problem->edge[e];
    if (edge->a != node && edge->b != node) continue;
    int other = option[edge->a == node ? edge->b : edge->a];
    for (int o = 0; o < n->options; o++)
      sum[o] += weighted(cost_weight, edge_cost(edge, node, o, other));
  }
  for (int o = 0; o < n->options; o++)
    if (sum[o] < sum[best]) best = o;
  return best;
}

// Improves a choice until no other option of any node alone is better.
static void descend(bd_ctx *ctx, const bd_choice_problem *problem, double cost_weight,
                    double usage_weight, int *option) {
  int most = 0;
  for (int i = 0; i < problem->nodes; i++)
    if (problem->node[i].options > most) most = problem->node[i].options;
  double *sum = BD_NEW_ARRAY(ctx->arena, double, most);
  bool changed = true;
  for (int round = 0; round < DESCENTS && changed; round++) {
    changed = false;
    for (int i = 0; i < problem->nodes; i++) {
      int best = best_alone(problem, cost_weight, usage_weight, option, i, sum);
      changed |= best != option[i];
      option[i] = best;
    }
  }
}

// A point of the trade between cost and usage.
typedef struct point {
  int *option;
  double cost, usage;
  double least; // no choice has a smaller weighted sum
} point;

static bool find_point(bd_ctx *ctx, const bd_choice_problem *problem, bd_elimination *e,
                       double cost_weight, double usage_weight, point *out) {
  out->option = BD_NEW_ARRAY(ctx->arena, int, problem->nodes);
  if (!bd_elimination_run(e, cost_weight, usage_weight, out->option)) return false;
  descend(ctx, problem, cost_weight, usage_weight, out->option);
  bd_choice_evaluate(problem, out->option, &out->cost, &out->usage);
  out->least = bd_elimination_bound(e);
  return true;
}

static void take_point(const bd_choice_problem *problem, bd_choice *out, const point *p) {
  if (isinf(p->cost) || p->usage > problem->budget) return;
  if (out->feasible && p->cost >= out->cost) return;
  out->feasible = true;
  out->option = p->option;
  out->cost = p->cost;
  out->usage = p->usage;
}

// Prices usage so that the budget is met (Lagrange): the price whose two cheapest choices lie on
// either side of the budget gives the best bound.
static void price_usage(bd_ctx *ctx, const bd_choice_problem *problem, bd_elimination *e,
                        point over, point within, bd_choice *out) {
  double budget = problem->budget;
  for (int round = 0; round < PRICE_ROUNDS; round++) {
    double price = (within.cost - over.cost) / (over.usage - within.usage);
    point next;
    if (price <= 0 || !find_point(ctx, problem, e, 1, price, &next)) return;
    double value = next.cost + price * next.usage, known = over.cost + price * over.usage;
    out->bound = fmax(out->bound, next.least - price * budget);
    take_point(problem, out, &next);
    if (!(value < known * (1 - 1e-12))) return;
    *(next.usage <= budget ? &within : &over) = next;
  }
}

bool bd_choice_is_small(const bd_choice_problem *problem) {
  for (int i = 0; i < problem->nodes; i++)
    if (problem->node[i].options > OPTION_LIMIT) return false;
  return true;
}

// Choices and bounds from prices of usage. False when no choice meets the budget.
static bool solve_prices(bd_ctx *ctx, const bd_choice_problem *problem, bd_elimination *e,
                         bd_choice *out) {
  point fastest, leanest;
  if (!find_point(ctx, problem, e, 1, 0, &fastest)) return false;
  out->bound = fastest.least;
  take_point(problem, out, &fastest);
  if (out->feasible) return true;
  if (!find_point(ctx, problem, e, 0, 1, &leanest) || leanest.least > problem->budget) return false;
  take_point(problem, out, &leanest);
  if (out->feasible && fastest.usage > problem->budget)
    price_usage(ctx, problem, e, fastest, leanest, out);
  return true;
}

bd_status bd_choice_solve(bd_ctx *ctx, const bd_choice_problem *problem, double limit_seconds,
                          bd_choice *out) {
  *out = (bd_choice){.cost = INFINITY, .bound = -INFINITY};
  bd_elimination *e = bd_elimination_create(ctx, problem, NULL, -1);
  if (!e) e = bd_elimination_relax(ctx, problem, -1, RELAXED_VISITS);
  if (e && !solve_prices(ctx, problem, e, out)) {
    out->bound = INFINITY;
    return BD_OK;
  }
  out->optimal = out->feasible && out->bound >= out->cost * (1 - 1e-9);
  if (out->optimal || !bd_choice_is_small(problem)) return BD_OK;
  reduction r = reduce(ctx, problem);
  if (pair_count(&r) > PROGRAM_LIMIT) return BD_OK;
  return solve_program(ctx, &r, limit_seconds, out->cost, out);
}
