// One choice per node of a model, with its cost and its usage over time kept up to date.
#ifndef BD_PLANNER_SELECT_STATE_H
#define BD_PLANNER_SELECT_STATE_H
#include "planner/select/dual.h"
#include "planner/select/load.h"

typedef struct bd_select_state {
  const bd_select_model *model;
  int *choice;
  double cost;         // above the model's constant; forbidden pairs count model->forbidden each
  bd_select_load load; // usage less room: at most zero everywhere
} bd_select_state;

// Between the chosen strategies of the two ends of an edge.
static inline double bd_select_between(const bd_select_model *m, int edge, int row, int column) {
  size_t columns = (size_t)bd_select_choices(m, m->high[edge]);
  double cost = m->matrix[edge][(size_t)row * columns + (size_t)column];
  return cost < m->forbidden ? cost : m->forbidden;
}

// Every node takes its least usage. Lives in ctx->arena.
bd_select_state *bd_select_state_create(bd_ctx *ctx, const bd_select_model *model);

// Takes over a choice, which fits in memory; computes cost and load anew.
void bd_select_state_set(bd_select_state *state, const int *choice);

// The cost of a choice, above the model's constant.
double bd_select_state_cost(const bd_select_model *model, const int *choice);

// Chooses node by node along the order what is least under the messages and prices of `dual`, among
// what leaves room for the least usages of the nodes still to come.
void bd_select_state_decode(bd_select_state *state, const bd_select_dual *dual);
#endif
