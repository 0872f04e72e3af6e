// The solvers behind bd_solver_run. Each is handed programs whose numbers are sane, normalized by
// bd_solver_normalize, with costs that it multiplies by bd_solver_cost_scale.
#ifndef BD_PLANNER_SOLVER_BACKEND_H
#define BD_PLANNER_SOLVER_BACKEND_H
#include "planner/solver.h"

// Solvers compare costs with absolute tolerances of about 1e-7: with this factor the largest is
// 1e4.
double bd_solver_cost_scale(const bd_program *program);

// Nodes of a branch and bound at most, open and closed: small programs may have more, as the time
// of a node grows with the square of columns.
int bd_solver_node_limit(const bd_program *program);

// The same program with rows of two ends as two rows and, with `bounds`, rows of one entry as
// bounds of its column; columns keep their numbers. False when columns or rows contradict
// themselves.
bool bd_solver_normalize(bd_ctx *ctx, const bd_program *program, bool bounds, bd_program *out);

BD_NODISCARD bd_status bd_solver_run_glpk(bd_ctx *ctx, const bd_program *program,
                                          double limit_seconds, double cutoff, bd_solution *out);
#ifdef BRAID_CBC
BD_NODISCARD bd_status bd_solver_run_cbc(bd_ctx *ctx, const bd_program *program,
                                         double limit_seconds, double cutoff, bd_solution *out);
#endif
#endif
