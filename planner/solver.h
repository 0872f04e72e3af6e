// Integer linear programs behind one door. A solver sees numbers only: no tensors, no devices.
#ifndef BD_PLANNER_SOLVER_H
#define BD_PLANNER_SOLVER_H
#include "ir/base/context.h"

typedef enum bd_solver_kind { BD_SOLVER_GLPK, BD_SOLVER_CBC } bd_solver_kind;
// "glpk", "cbc", NULL.
extern const char *const bd_solver_names[];
// GLPK always is; CBC when it was found at configuration.
bool bd_solver_built_in(bd_solver_kind kind);

// minimize cost'x over lower <= x <= upper, row_lower <= A x <= row_upper, some x integral.
// Build with the functions below; everything lives in ctx->arena.
typedef struct bd_program {
  bd_solver_kind solver;
  int columns, column_capacity, rows, row_capacity;
  double *cost, *lower, *upper;
  bool *integral;
  double *row_lower, *row_upper;
  int64_t entries, entry_capacity;
  int *entry_row, *entry_column;
  double *entry_value;
} bd_program;

typedef enum bd_solver_outcome {
  BD_SOLVER_OPTIMAL,    // values are optimal
  BD_SOLVER_FEASIBLE,   // the time was up: values are feasible, bound is valid
  BD_SOLVER_INFEASIBLE, // nothing satisfies the rows, or nothing below the cutoff
  BD_SOLVER_UNKNOWN,    // the time was up with nothing found; bound is valid
} bd_solver_outcome;

typedef struct bd_solution {
  bd_solver_outcome outcome;
  double cost, bound;
  double *values; // per column, when there are any
} bd_solution;

int bd_program_add_column(bd_ctx *ctx, bd_program *program, double cost, double lower, double upper,
                          bool integral);
int bd_program_add_row(bd_ctx *ctx, bd_program *program, double lower, double upper);
// Each (row, column) at most once.
void bd_program_add_entry(bd_ctx *ctx, bd_program *program, int row, int column, double value);

// Solves within `limit_seconds` of wall time and a fixed number of branches; solutions that cost
// `cutoff` or more are not wanted (INFINITY: all are). Errors: BD_INVALID on numbers that no solver
// takes, BD_EXTERNAL when the library fails, BD_UNSUPPORTED when the solver is not built in.
// Several threads may solve at once.
BD_NODISCARD bd_status bd_solver_run(bd_ctx *ctx, const bd_program *program, double limit_seconds,
                                     double cutoff, bd_solution *out_solution);

// Frees what the library keeps for the calling thread, which calls it last.
void bd_solver_leave_thread(void);
#endif
