// GLPK behind planner/solver.h. GLPK prints and aborts on bad input or a failed assertion: its
// error hook jumps back here. Its environment belongs to the thread: GLPK is built with
// thread-local storage (its manual, section 1.4), as Debian's is.
#include "ir/base/clock.h"
#include "planner/solver/relax.h"
#include "planner/solver/tree.h"
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>

static int bound_kind(double lower, double upper) {
  if (isinf(lower)) return isinf(upper) ? GLP_FR : GLP_UP;
  if (isinf(upper)) return GLP_LO;
  return lower == upper ? GLP_FX : GLP_DB;
}

// GLPK counts from 1 and wants each (row, column) once.
static void load_matrix(glp_prob *problem, const bd_program *p, int *rows, int *columns,
                        double *values) {
  for (int64_t i = 0; i < p->entries; i++) {
    rows[i + 1] = p->entry_row[i] + 1;
    columns[i + 1] = p->entry_column[i] + 1;
    values[i + 1] = p->entry_value[i];
  }
  glp_load_matrix(problem, (int)p->entries, rows, columns, values);
}

static void load(bd_ctx *ctx, glp_prob *problem, const bd_program *p) {
  glp_set_obj_dir(problem, GLP_MIN);
  glp_add_cols(problem, p->columns);
  if (p->rows) glp_add_rows(problem, p->rows);
  for (int i = 0; i < p->columns; i++) {
    glp_set_col_bnds(problem, i + 1, bound_kind(p->lower[i], p->upper[i]), p->lower[i],
                     p->upper[i]);
    glp_set_col_kind(problem, i + 1, p->integral[i] ? GLP_IV : GLP_CV);
  }
  for (int i = 0; i < p->rows; i++)
    glp_set_row_bnds(problem, i + 1, bound_kind(p->row_lower[i], p->row_upper[i]), p->row_lower[i],
                     p->row_upper[i]);
  size_t count = (size_t)p->entries + 1;
  load_matrix(problem, p, BD_NEW_ARRAY(ctx->arena, int, count),
              BD_NEW_ARRAY(ctx->arena, int, count), BD_NEW_ARRAY(ctx->arena, double, count));
}

static void load_costs(glp_prob *problem, const bd_program *p, double scale) {
  for (int i = 0; i < p->columns; i++)
    glp_set_obj_coef(problem, i + 1, p->cost[i] * scale);
}

// Raised by GLPK's hook when it would have aborted.
static void on_glpk_error(void *info) {
  longjmp(*(jmp_buf *)info, 1);
}

// What a failed assertion says goes to the terminal even where output is off: it is taken here.
static int take_output(void *info, const char *text) {
  return 1;
}

#define ROOT_SECONDS 0.5
// Assertions that fail, circles and numbers that are lost depend on how numbers are rounded: other
// units end them.
static const double scales[] = {1, 1.37, 0.61};

static void delete_problem(void *problem) {
  glp_delete_prob(problem);
  glp_error_hook(NULL, NULL);
}

// With costs in other units. Beside BD_RELAXED nothing more than the bound of `*out` is set.
static bd_relaxed attempt(bd_ctx *ctx, const bd_program *program, double end_seconds, double cutoff,
                          double scale, bd_solution *out) {
  jmp_buf back;
  bd_owned held, *const outer = ctx->owned;
  glp_term_out(GLP_OFF);
  glp_term_hook(take_output, NULL);
  if (setjmp(back) != 0) {
    // GLPK's environment is unusable after an error; freeing it is what its manual asks for.
    glp_free_env();
    ctx->owned = outer;
    return BD_RELAX_STUCK;
  }
  glp_error_hook(on_glpk_error, &back);
  glp_prob *problem = glp_create_prob();
  bd_own(ctx, &held, delete_problem, problem);
  load(ctx, problem, program);
  load_costs(problem, program, scale);
  // Rows of bytes stand beside rows of counts. Powers of two round nothing.
  glp_scale_prob(problem, GLP_SF_GM | GLP_SF_EQ | GLP_SF_2N | GLP_SF_SKIP);
  // Bounded as its iterations are, it is worth a moment more: there is no bound without it.
  bd_relaxed how = bd_relax(problem, fmax(end_seconds, bd_clock_seconds() + ROOT_SECONDS));
  if (how == BD_RELAXED || how == BD_RELAX_BEATEN)
    out->bound = how == BD_RELAXED ? glp_get_obj_val(problem) / scale : INFINITY;
  if (how == BD_RELAXED && out->bound < cutoff) {
    bd_tree_limits limits = {cutoff * scale, end_seconds, bd_solver_node_limit(program)};
    bd_tree_search(ctx, problem, program, &limits, out);
    out->bound /= scale;
    out->cost /= scale;
  } else if (how == BD_RELAXED || how == BD_RELAX_BEATEN) {
    out->outcome = BD_SOLVER_INFEASIBLE;
    how = BD_RELAXED;
  }
  bd_disown(ctx, &held);
  delete_problem(problem);
  return how;
}

bd_status bd_solver_run_glpk(bd_ctx *ctx, const bd_program *program, double limit_seconds,
                             double cutoff, bd_solution *out) {
  double scale = bd_solver_cost_scale(program), end = bd_clock_seconds() + limit_seconds;
  bd_relaxed how = BD_RELAX_STUCK;
  for (size_t i = 0; i < sizeof scales / sizeof *scales && how == BD_RELAX_STUCK; i++)
    how = attempt(ctx, program, end, cutoff, scale * scales[i], out);
  if (how != BD_RELAX_FAILED) return BD_OK;
  return bd_fail(ctx, BD_EXTERNAL, BD_NOWHERE, "GLPK failed on a planning problem");
}

void bd_solver_leave_thread(void) {
  glp_free_env();
}
