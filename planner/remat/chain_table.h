// The dynamic program of bd_chain_solve.
#ifndef BD_PLANNER_REMAT_CHAIN_TABLE_H
#define BD_PLANNER_REMAT_CHAIN_TABLE_H
#include "planner/remat/chain.h"

// Least times of the layers s..t, forward and backward, in m = 0..budget slots beside their input:
// the gradient of their output is counted, their input is not.
typedef struct bd_chain_table {
  const bd_chain *chain;
  int64_t budget;
  double *time;     // row (s, t) of budget + 1 numbers begins at bd_chain_row
  double *work;     // of layer 0 to before layer i, forward only
  int64_t *minimum; // per (s, t): what a forward through all of them needs
} bd_chain_table;

static inline size_t bd_chain_cell(int s, int t) {
  return (size_t)t * (size_t)(t + 1) / 2 + (size_t)s;
}
static inline double *bd_chain_row(const bd_chain_table *table, int s, int t) {
  return table->time + bd_chain_cell(s, t) * (size_t)(table->budget + 1);
}

// Per (s, t) with s <= t: the slots of one layer's pass, or of a forward through more.
int64_t *bd_chain_minimum(bd_ctx *ctx, const bd_chain *chain);
// False when the deadline came before all rows were there.
bool bd_chain_table_fill(bd_ctx *ctx, const bd_chain *chain, int64_t budget, bd_deadline deadline,
                         bd_chain_table *out);
// The steps of the least time, which must be finite.
void bd_chain_table_steps(bd_ctx *ctx, const bd_chain_table *table, bd_remat_steps *out);
// Where s..t, s < t, are split in m slots: k > s keeps the input of layer k and runs s..k-1 again,
// s keeps the tape of layer s.
typedef int (*bd_chain_choice)(const void *user, int s, int t, int64_t m);
void bd_chain_steps(bd_ctx *ctx, const bd_chain *chain, bd_chain_choice choose, const void *user,
                    int64_t budget, bd_remat_steps *out);
// Steps that fit in `budget`, at no particular time. False when there are none.
bool bd_chain_lean_steps(bd_ctx *ctx, const bd_chain *chain, int64_t budget, bd_remat_steps *out);
#endif
