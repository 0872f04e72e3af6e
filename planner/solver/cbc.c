// CBC behind planner/solver.h, when it was found at configuration. Its solve keeps state in
// variables of the library, so that one thread at a time is let in.
#ifdef BRAID_CBC
#include "planner/solver/cbc_library.h"
#include <float.h>
#include <math.h>
#include <pthread.h>

// What Cbc_status and Cbc_secondaryStatus say.
enum { ABANDONED = 2, UNBOUNDED = 7 };

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static double bounded(double value) {
  return isinf(value) ? copysign(DBL_MAX, value) : value;
}

static double *bounded_all(bd_ctx *ctx, const double *values, int count) {
  double *out = BD_NEW_ARRAY(ctx->arena, double, count);
  for (int i = 0; i < count; i++)
    out[i] = bounded(values[i]);
  return out;
}

// The numbers of a program as CBC takes them: entries by column.
typedef struct matrix {
  int *start, *row;
  double *value, *cost, *lower, *upper, *row_lower, *row_upper;
} matrix;

static matrix by_column(bd_ctx *ctx, const bd_program *p, double scale) {
  matrix m = {.start = BD_NEW_ARRAY(ctx->arena, int, p->columns + 2),
              .row = BD_NEW_ARRAY(ctx->arena, int, p->entries),
              .value = BD_NEW_ARRAY(ctx->arena, double, p->entries),
              .cost = BD_NEW_ARRAY(ctx->arena, double, p->columns)};
  for (int64_t i = 0; i < p->entries; i++)
    m.start[p->entry_column[i] + 2]++;
  for (int i = 0; i < p->columns; i++)
    m.start[i + 2] += m.start[i + 1];
  // start[c + 1] runs to the end of column c.
  for (int64_t i = 0; i < p->entries; i++) {
    int at = m.start[p->entry_column[i] + 1]++;
    m.row[at] = p->entry_row[i];
    m.value[at] = p->entry_value[i];
  }
  for (int i = 0; i < p->columns; i++)
    m.cost[i] = p->cost[i] * scale;
  m.lower = bounded_all(ctx, p->lower, p->columns);
  m.upper = bounded_all(ctx, p->upper, p->columns);
  m.row_lower = bounded_all(ctx, p->row_lower, p->rows);
  m.row_upper = bounded_all(ctx, p->row_upper, p->rows);
  return m;
}

// A program that CBC works on.
typedef struct session {
  const bd_cbc *cbc;
  Cbc_Model *model;
} session;

static void load(const session *s, const bd_program *p, const matrix *m) {
  s->cbc->setLogLevel(s->model, 0);
  s->cbc->loadProblem(s->model, p->columns, p->rows, m->start, m->row, m->value, m->lower, m->upper,
                      m->cost, m->row_lower, m->row_upper);
  s->cbc->setObjSense(s->model, 1);
  for (int i = 0; i < p->columns; i++)
    if (p->integral[i]) s->cbc->setInteger(s->model, i);
}

static void limit(const session *s, int nodes, double limit_seconds, double cutoff) {
  s->cbc->setParameter(s->model, "timeMode", "elapsed");
  s->cbc->setParameter(s->model, "preprocess", "off"); // it gives wrong optima (2.10.8)
  s->cbc->setMaximumSeconds(s->model, limit_seconds);
  s->cbc->setMaximumNodes(s->model, nodes);
  s->cbc->setAllowableGap(s->model, 0);
  s->cbc->setAllowableFractionGap(s->model, 1e-9);
  if (!isinf(cutoff)) s->cbc->setCutoff(s->model, cutoff);
}

static bool read_outcome(bd_ctx *ctx, const session *s, const bd_program *p, double scale,
                         double cutoff, bd_solution *out) {
  if (s->cbc->status(s->model) == ABANDONED || s->cbc->secondaryStatus(s->model) == UNBOUNDED)
    return false;
  // A program without integral columns is solved without regard to the cutoff.
  bool optimal = s->cbc->isProvenOptimal(s->model),
       beaten = optimal && s->cbc->getObjValue(s->model) >= cutoff;
  if (s->cbc->isProvenInfeasible(s->model) || beaten) {
    out->outcome = BD_SOLVER_INFEASIBLE;
    out->bound = isinf(cutoff) ? INFINITY : cutoff / scale;
    return true;
  }
  double cost = s->cbc->getObjValue(s->model), bound = s->cbc->getBestPossibleObjValue(s->model);
  const double *values = s->cbc->getColSolution(s->model);
  bool found = values && fabs(cost) < 1e30 && cost < cutoff;
  if (optimal || fabs(bound) < 1e30) out->bound = (optimal ? cost : bound) / scale;
  if (!found) return true;
  out->cost = cost / scale;
  out->outcome = optimal ? BD_SOLVER_OPTIMAL : BD_SOLVER_FEASIBLE;
  out->values = BD_NEW_ARRAY(ctx->arena, double, p->columns);
  for (int i = 0; i < p->columns; i++)
    out->values[i] = values[i];
  return true;
}

static void leave(void *of) {
  const session *s = of;
  if (s->model) s->cbc->deleteModel(s->model);
  pthread_mutex_unlock(&one_at_a_time);
}

bd_status bd_solver_run_cbc(bd_ctx *ctx, const bd_program *program, double limit_seconds,
                            double cutoff, bd_solution *out) {
  double scale = bd_solver_cost_scale(program);
  matrix m = by_column(ctx, program, scale);
  session *s = BD_NEW(ctx->arena, session);
  bd_owned held;
  BD_TRY(bd_cbc_load(ctx, &s->cbc));
  pthread_mutex_lock(&one_at_a_time);
  s->model = s->cbc->newModel();
  bd_own(ctx, &held, leave, s);
  bool solved = s->model != NULL;
  if (solved) {
    load(s, program, &m);
    limit(s, bd_solver_node_limit(program), limit_seconds, cutoff * scale);
    s->cbc->solve(s->model);
    solved = read_outcome(ctx, s, program, scale, cutoff * scale, out);
  }
  bd_disown(ctx, &held);
  leave(s);
  return solved ? BD_OK : bd_fail(ctx, BD_EXTERNAL, BD_NOWHERE, "CBC failed on a planning problem");
}
#endif
