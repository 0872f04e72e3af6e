#include "planner/solver/relax.h"
#include "ir/base/clock.h"
#include <math.h>
#include <stdint.h>

// A simplex method that goes round in circles is stopped: this many times the rows and columns is
// far more than any takes that does not.
#define ROUNDS 20
#define ROUNDS_AGAIN 2 // from a basis that is nearly the best one
#define LEAST_ITERATIONS 1000
#define ROUGH_ITERATIONS 30

// Milliseconds until then; GLPK knows no less than none.
static int milliseconds_until(double end_seconds) {
  double left = 1000 * (end_seconds - bd_clock_seconds());
  return left > 1e9 ? INT32_MAX : left > 0 ? (int)ceil(left) : 0;
}

static glp_smcp options_for(int method, double cutoff, int iterations, double end_seconds) {
  glp_smcp options;
  glp_init_smcp(&options);
  options.msg_lev = GLP_MSG_OFF;
  options.meth = method;
  if (method != GLP_PRIMAL && isfinite(cutoff)) options.obj_ul = cutoff;
  options.it_lim = iterations;
  options.tm_lim = milliseconds_until(end_seconds);
  return options;
}

static bd_relaxed told(glp_prob *problem, int code) {
  switch (code) {
  case 0:
    break;
  case GLP_ENOPFS:
  case GLP_EOBJUL:
    return BD_RELAX_BEATEN;
  case GLP_ETMLIM:
    return BD_RELAX_LATE;
  case GLP_EITLIM:
  case GLP_EFAIL:
  case GLP_ESING:
  case GLP_ECOND:
    return BD_RELAX_STUCK;
  default:
    return BD_RELAX_FAILED;
  }
  switch (glp_get_status(problem)) {
  case GLP_OPT:
    return BD_RELAXED;
  case GLP_NOFEAS:
    return BD_RELAX_BEATEN;
  case GLP_UNBND:
    return BD_RELAX_FAILED;
  default:
    return BD_RELAX_STUCK;
  }
}

typedef enum beginning { AS_IT_IS, ADVANCED, PREPROCESSED } beginning;

static bd_relaxed attempt(glp_prob *problem, int method, beginning from, int rounds, double cutoff,
                          double end_seconds) {
  int size = glp_get_num_rows(problem) + glp_get_num_cols(problem);
  glp_smcp options = options_for(method, cutoff, LEAST_ITERATIONS + rounds * size, end_seconds);
  if (from == ADVANCED) glp_adv_basis(problem, 0);
  if (from == PREPROCESSED) options.presolve = GLP_ON;
  return told(problem, glp_simplex(problem, &options));
}

bd_relaxed bd_relax(glp_prob *problem, double end_seconds) {
  bd_relaxed how = attempt(problem, GLP_PRIMAL, PREPROCESSED, ROUNDS, INFINITY, end_seconds);
  if (how == BD_RELAX_STUCK)
    how = attempt(problem, GLP_DUALP, ADVANCED, ROUNDS, INFINITY, end_seconds);
  return how;
}

bd_relaxed bd_relax_again(glp_prob *problem, double cutoff, double end_seconds) {
  bd_relaxed how = attempt(problem, GLP_DUALP, AS_IT_IS, ROUNDS_AGAIN, cutoff, end_seconds);
  if (how == BD_RELAX_STUCK) how = bd_relax(problem, end_seconds);
  return how;
}

double bd_relax_roughly(glp_prob *problem, double bound, double cutoff, double end_seconds) {
  glp_smcp options = options_for(GLP_DUAL, cutoff, ROUGH_ITERATIONS, end_seconds);
  int code = glp_simplex(problem, &options);
  if (told(problem, code) == BD_RELAX_BEATEN) return INFINITY;
  bool is_bound = (code == 0 || code == GLP_EITLIM) && glp_get_dual_stat(problem) == GLP_FEAS;
  return is_bound ? fmax(bound, glp_get_obj_val(problem)) : bound;
}
