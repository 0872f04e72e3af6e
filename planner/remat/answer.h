// What the solvers of recomputation answer: a sequence of steps with its cost and its memory.
#ifndef BD_PLANNER_REMAT_ANSWER_H
#define BD_PLANNER_REMAT_ANSWER_H
#include "planner/bare.h"

typedef struct bd_remat_step {
  int what; // of the solver's own kinds
  int at;   // layer or node
} bd_remat_step;

typedef struct bd_remat_steps {
  bd_remat_step *step;
  int count, capacity;
} bd_remat_steps;

typedef struct bd_remat_answer {
  const char *problem;          // "chain of 100 layers"
  const char *const *word;      // of each kind of step
  const char *time_unit, *unit; // of costs and of memory, for people
  bd_remat_steps steps;
  double cost, base_cost; // of the sequence, and with every value computed once
  double bound;           // no sequence costs less
  bool cut;               // the deadline came before a proof
  double grain;           // sizes were counted in units of so many; 0 or 1: as they are
  double peak, budget;    // in the file's unit
  double seconds;         // of wall time spent
} bd_remat_answer;

void bd_remat_steps_add(bd_ctx *ctx, bd_remat_steps *steps, int what, int at);

// Holds an answer to what the replay of its steps costs and takes, and notes the peak. `of` is what
// the sequence is of: "chain". Errors: BD_INTERNAL when they differ.
BD_NODISCARD bd_status bd_remat_answer_check(bd_ctx *ctx, const char *of, double replayed_cost,
                                             int64_t peak, int64_t budget, bd_remat_answer *answer);

// {"sequence": [{"do", "at"}...], "cost", "base_cost", "bound", "peak", "budget", "seconds"}, or
// the same in words. An answer that is not proven, since the search was cut short or too coarse,
// comes with a warning.
void bd_remat_answer_print(bd_ctx *ctx, const bd_bare_request *request,
                           const bd_remat_answer *answer, bd_text *out);
#endif
