// Branch and bound over linear programs of GLPK. glp_intopt bounds no iterations of its nodes'
// programs, so that one of them may keep it for ever.
#ifndef BD_PLANNER_SOLVER_TREE_H
#define BD_PLANNER_SOLVER_TREE_H
#include "planner/solver/backend.h"
#include <glpk.h>

// In the units of the problem's objective.
typedef struct bd_tree_limits {
  double cutoff, end_seconds; // of the clock
  int nodes;
} bd_tree_limits;

// From the solved relaxation at hand. `out->values` is set where something below the cutoff was
// found; the outcome is the same however fast the machine is, unless the clock ends it.
void bd_tree_search(bd_ctx *ctx, glp_prob *problem, const bd_program *program,
                    const bd_tree_limits *limits, bd_solution *out);
#endif
