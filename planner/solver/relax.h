// Linear programs that GLPK solves in a bounded number of iterations: its simplex methods may go
// round in circles, above all the primal one, which it falls back to where the dual one loses its
// numbers.
#ifndef BD_PLANNER_SOLVER_RELAX_H
#define BD_PLANNER_SOLVER_RELAX_H
#include <glpk.h>

typedef enum bd_relaxed {
  BD_RELAXED,      // solved: the objective's value is a bound
  BD_RELAX_BEATEN, // nothing satisfies the rows, or nothing below the cutoff
  BD_RELAX_STUCK,  // it goes round in circles or loses its numbers, whatever is tried
  BD_RELAX_LATE,   // the clock has passed `end_seconds`
  BD_RELAX_FAILED, // it has no least value
} bd_relaxed;

// Without a basis to begin from.
bd_relaxed bd_relax(glp_prob *problem, double end_seconds);

// From the problem's basis, which was the best one for other ends of some columns.
bd_relaxed bd_relax_again(glp_prob *problem, double cutoff, double end_seconds);

// The same in a few iterations, for a bound that may be low: `bound` where nothing is found out,
// INFINITY where nothing is below the cutoff.
double bd_relax_roughly(glp_prob *problem, double bound, double cutoff, double end_seconds);
#endif
