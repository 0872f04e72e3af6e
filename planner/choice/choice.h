// Choice problems: one option per node, costs on nodes and on pairs of neighbours, one resource
// with a budget. Layer strategies are found in this form, which is the one of the ASPLOS 2025
// contest on intra-operator parallelism (google/iopddl) with a single usage.
#ifndef BD_PLANNER_CHOICE_CHOICE_H
#define BD_PLANNER_CHOICE_CHOICE_H
#include "planner/solver.h"

typedef struct bd_choice_node {
  int options;
  double *cost;  // INFINITY: not allowed
  double *usage; // >= 0
} bd_choice_node;

// Options that cost the same with every option of the other end share a class.
typedef struct bd_choice_edge {
  int a, b; // a != b
  int classes_a, classes_b;
  int *class_a, *class_b; // per option of the end: its class
  double *cost;           // [classes of a][classes of b]; INFINITY: not allowed
} bd_choice_edge;

static inline double bd_choice_edge_cost(const bd_choice_edge *edge, int option_a, int option_b) {
  return edge->cost[(size_t)edge->class_a[option_a] * (size_t)edge->classes_b +
                    (size_t)edge->class_b[option_b]];
}

typedef struct bd_choice_problem {
  bd_solver_kind solver;
  int nodes, edges;
  bd_choice_node *node;
  bd_choice_edge *edge;
  double budget; // of total usage; INFINITY: none
} bd_choice_problem;

typedef struct bd_choice {
  bool feasible, optimal;
  int *option; // per node, when feasible
  double cost, usage;
  double bound; // no feasible choice costs less
} bd_choice;

// Without a budget, or where it does not bind, elimination solves it exactly; where its tables
// would be too large, a relaxed one gives a choice and a bound (planner/choice/eliminate.h). Under
// a budget, usage gets a price (Lagrange), which yields a choice and a bound; when they differ and
// the problem is small, options that others dominate are dropped, and an integer program with one
// binary per option and product variables per pair (Zheng et al., OSDI 2022, section 4.2) closes
// the gap within `limit_seconds` of wall time. `optimal` says whether it is closed. A bound of
// INFINITY: no choice is feasible; of -INFINITY: nothing is known.
BD_NODISCARD bd_status bd_choice_solve(bd_ctx *ctx, const bd_choice_problem *problem,
                                       double limit_seconds, bd_choice *out_choice);

// Whether the integer program is tried, as far as that can be told before dominated options are
// dropped.
bool bd_choice_is_small(const bd_choice_problem *problem);

// Cost and usage of a given choice; cost is INFINITY when it is not allowed.
void bd_choice_evaluate(const bd_choice_problem *problem, const int *option, double *out_cost,
                        double *out_usage);
#endif
