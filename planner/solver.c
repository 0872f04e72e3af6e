// The door to the solvers: checks the numbers, then hands the program to the one that it names.
#include "planner/solver/backend.h"
#include <math.h>

enum { NODE_LEAST = 40 };
#define NODE_CELLS 2.5e6 // nodes times the square of columns

const char *const bd_solver_names[] = {"glpk", "cbc", NULL};

static bool sane(double value) {
  return isfinite(value) && fabs(value) < 1e15;
}
static bool sane_bound(double value) {
  return !isnan(value) && (isinf(value) || sane(value));
}

static bd_status validate(bd_ctx *ctx, const bd_program *p) {
  bool good = p->columns > 0 && p->entries < INT32_MAX;
  for (int i = 0; good && i < p->columns; i++)
    good = sane(p->cost[i]) && sane_bound(p->lower[i]) && sane_bound(p->upper[i]) &&
           p->lower[i] <= p->upper[i];
  for (int i = 0; good && i < p->rows; i++)
    good = sane_bound(p->row_lower[i]) && sane_bound(p->row_upper[i]) &&
           p->row_lower[i] <= p->row_upper[i];
  for (int64_t i = 0; good && i < p->entries; i++)
    good = sane(p->entry_value[i]);
  if (good) return BD_OK;
  return bd_fail(ctx, BD_INVALID, BD_NOWHERE,
                 "the planning problem has costs or sizes beyond what a solver takes");
}

double bd_solver_cost_scale(const bd_program *p) {
  double largest = 0;
  for (int i = 0; i < p->columns; i++)
    largest = fmax(largest, fabs(p->cost[i]));
  return largest > 0 ? 1e4 / largest : 1;
}

int bd_solver_node_limit(const bd_program *p) {
  double nodes = NODE_CELLS / ((double)p->columns * p->columns + 1);
  return nodes > NODE_LEAST ? (int)nodes : NODE_LEAST;
}

bool bd_solver_built_in(bd_solver_kind kind) {
#ifdef BRAID_CBC
  return kind == BD_SOLVER_GLPK || kind == BD_SOLVER_CBC;
#else
  return kind == BD_SOLVER_GLPK;
#endif
}

bd_status bd_solver_run(bd_ctx *ctx, const bd_program *program, double limit_seconds, double cutoff,
                        bd_solution *out) {
  *out = (bd_solution){.outcome = BD_SOLVER_UNKNOWN, .bound = -INFINITY};
  BD_TRY(validate(ctx, program));
  if (!bd_solver_built_in(program->solver))
    return bd_fail(ctx, BD_UNSUPPORTED, BD_NOWHERE,
                   "this braid was built without CBC; install coinor-libcbc-dev and build again");
  bd_program normal;
  if (!bd_solver_normalize(ctx, program, program->solver == BD_SOLVER_CBC, &normal)) {
    out->outcome = BD_SOLVER_INFEASIBLE;
    out->bound = INFINITY;
    return BD_OK;
  }
#ifdef BRAID_CBC
  if (program->solver == BD_SOLVER_CBC)
    return bd_solver_run_cbc(ctx, &normal, limit_seconds, cutoff, out);
#endif
  return bd_solver_run_glpk(ctx, &normal, limit_seconds, cutoff, out);
}
