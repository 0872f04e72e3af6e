// GLPK behind planner/solver.h. GLPK prints and aborts on bad input or a failed assertion: its
// error hook jumps back here. Its environment belongs to the thread: GLPK is built with
// thread-local storage (its manual, section 1.4), as Debian's is.
#include "planner/solver/backend.h"
#include <glpk.h>
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

// In scaled costs.
typedef struct search {
  double scale, cutoff, bound;
  int nodes;
} search;

// Stops a branch and bound whose best open node cannot beat the cutoff, or that has grown too
// large: the same program ends the same way however fast the machine is.
static void watch(glp_tree *tree, void *info) {
  search *state = info;
  int best = glp_ios_best_node(tree), nodes;
  glp_ios_tree_size(tree, NULL, NULL, &nodes);
  if (nodes > state->nodes) glp_ios_terminate(tree);
  if (!best) return;
  double bound = glp_ios_node_bound(tree, best);
  if (isfinite(bound) && bound > state->bound) state->bound = bound;
  if (bound >= state->cutoff) glp_ios_terminate(tree);
}

// Raised by GLPK's hook when it would have aborted.
static void on_glpk_error(void *info) {
  longjmp(*(jmp_buf *)info, 1);
}

// What a failed assertion says goes to the terminal even where output is off: it is taken here.
static int take_output(void *info, const char *text) {
  return 1;
}

// A simplex method that goes round in circles is stopped: this many times the rows and columns is
// far more than any takes that does not.
#define SIMPLEX_ROUNDS 20
#define SIMPLEX_LEAST 1000
// Circles, assertions that fail and failures that it tells depend on how numbers are rounded: other
// units end them.
static const double scales[] = {1, 1.37, 0.61};

typedef enum relaxed {
  RELAXED, // the bound is known; INFINITY: nothing satisfies the rows
  STUCK,   // it goes round in circles, loses its numbers, or fails an assertion
  RELAX_FAILED,
} relaxed;

static relaxed relax(glp_prob *problem, double *out_bound) {
  glp_smcp simplex;
  glp_init_smcp(&simplex);
  simplex.msg_lev = GLP_MSG_OFF;
  simplex.presolve = GLP_ON;
  simplex.it_lim =
      SIMPLEX_LEAST + SIMPLEX_ROUNDS * (glp_get_num_rows(problem) + glp_get_num_cols(problem));
  int code = glp_simplex(problem, &simplex);
  if (code == GLP_EITLIM || code == GLP_EFAIL) return STUCK;
  if (code == GLP_ENOPFS || glp_get_status(problem) == GLP_NOFEAS) {
    *out_bound = INFINITY;
    return RELAXED;
  }
  if (code != 0 || glp_get_status(problem) != GLP_OPT) return RELAX_FAILED;
  *out_bound = glp_get_obj_val(problem);
  return RELAXED;
}

static bool branch(bd_ctx *ctx, glp_prob *problem, const bd_program *p, double limit_seconds,
                   search *state, bd_solution *out) {
  glp_iocp options;
  glp_init_iocp(&options);
  options.msg_lev = GLP_MSG_OFF;
  // The root's relaxation is at hand. That of a preprocessed program could go round in circles: it
  // is for relaxations alone that cannot be begun from.
  options.presolve = GLP_OFF;
  options.br_tech = GLP_BR_PCH;
  options.bt_tech = GLP_BT_BLB;
  options.cb_func = watch;
  options.cb_info = state;
  options.mip_gap = 1e-9;
  options.tm_lim = limit_seconds > 2e6 ? INT32_MAX : (int)ceil(limit_seconds * 1000);
  int code = glp_intopt(problem, &options);
  if (code == GLP_EROOT || code == GLP_EFAIL) {
    options.presolve = GLP_ON;
    code = glp_intopt(problem, &options);
  }
  if (code == GLP_ENOPFS || code == GLP_ENODFS) {
    out->outcome = BD_SOLVER_INFEASIBLE;
    out->bound = INFINITY;
    return true;
  }
  if (code != 0 && code != GLP_ETMLIM && code != GLP_ESTOP && code != GLP_EMIPGAP) return false;
  int status = glp_mip_status(problem);
  double cost = glp_mip_obj_val(problem);
  bool found = status == GLP_OPT || status == GLP_FEAS;
  if (status == GLP_NOFEAS) state->bound = INFINITY;
  if (status == GLP_OPT || (found && state->bound > cost)) state->bound = cost;
  bool beaten = state->bound >= state->cutoff;
  out->bound = state->bound / state->scale;
  out->outcome = status == GLP_NOFEAS || beaten ? BD_SOLVER_INFEASIBLE : BD_SOLVER_UNKNOWN;
  if (!found || cost >= state->cutoff) return true;
  out->cost = cost / state->scale;
  out->outcome = state->bound >= cost ? BD_SOLVER_OPTIMAL : BD_SOLVER_FEASIBLE;
  out->values = BD_NEW_ARRAY(ctx->arena, double, p->columns);
  for (int i = 0; i < p->columns; i++)
    out->values[i] = glp_mip_col_val(problem, i + 1);
  return true;
}

static void delete_problem(void *problem) {
  glp_delete_prob(problem);
  glp_error_hook(NULL, NULL);
}

// With costs in other units. `*out` is set with RELAXED.
static relaxed attempt(bd_ctx *ctx, const bd_program *program, double limit_seconds, double cutoff,
                       double scale, bd_solution *out) {
  jmp_buf back;
  bd_owned held, *const outer = ctx->owned;
  glp_term_out(GLP_OFF);
  glp_term_hook(take_output, NULL);
  if (setjmp(back) != 0) {
    // GLPK's environment is unusable after an error; freeing it is what its manual asks for.
    glp_free_env();
    ctx->owned = outer;
    return STUCK;
  }
  glp_error_hook(on_glpk_error, &back);
  glp_prob *problem = glp_create_prob();
  bd_own(ctx, &held, delete_problem, problem);
  search state = {scale, cutoff * scale, -INFINITY, bd_solver_node_limit(program)};
  load(ctx, problem, program);
  load_costs(problem, program, scale);
  relaxed how = relax(problem, &state.bound);
  if (how == RELAXED && state.bound >= state.cutoff)
    *out = (bd_solution){.outcome = BD_SOLVER_INFEASIBLE, .bound = state.bound / scale};
  else if (how == RELAXED && !branch(ctx, problem, program, limit_seconds, &state, out))
    how = RELAX_FAILED;
  bd_disown(ctx, &held);
  delete_problem(problem);
  return how;
}

bd_status bd_solver_run_glpk(bd_ctx *ctx, const bd_program *program, double limit_seconds,
                             double cutoff, bd_solution *out) {
  double scale = bd_solver_cost_scale(program);
  relaxed how = STUCK;
  for (size_t i = 0; i < sizeof scales / sizeof *scales && how != RELAXED; i++)
    how = attempt(ctx, program, limit_seconds, cutoff, scale * scales[i], out);
  if (how == STUCK) *out = (bd_solution){.outcome = BD_SOLVER_UNKNOWN, .bound = -INFINITY};
  if (how != RELAX_FAILED) return BD_OK;
  return bd_fail(ctx, BD_EXTERNAL, BD_NOWHERE, "GLPK failed on a planning problem");
}

void bd_solver_leave_thread(void) {
  glp_free_env();
}
