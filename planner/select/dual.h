// Lower bounds: memory is priced at every point of time (Lagrangian relaxation), and the pairwise
// problem that remains is bounded by sequential tree-reweighted message passing (Kolmogorov,
// "Convergent Tree-Reweighted Message Passing for Energy Minimization", IEEE TPAMI 28(10), 2006,
// section 5: chains along the order of the nodes). Every state of prices and messages is a valid
// bound; passing messages and moving prices raises it.
#ifndef BD_PLANNER_SELECT_DUAL_H
#define BD_PLANNER_SELECT_DUAL_H
#include "planner/select/model.h"

typedef struct bd_select_dual {
  const bd_select_model *model;
  double *price;      // of each point: cost per unit of usage
  double *total;      // points + 1: prices added up from the left
  double *unary;      // of each strategy: its cost, and its usage at the prices
  double *belief;     // of each strategy: unary and all messages
  size_t *low, *high; // of each edge: where the messages to its nodes begin
  double *message;
  size_t messages;
  double *scratch; // four times the most strategies of a node
} bd_select_dual;

// All prices and messages are zero. Lives in ctx->arena.
bd_select_dual *bd_select_dual_create(bd_ctx *ctx, const bd_select_model *model);

// To be called after `price` was changed: rounds the prices so that sums of them are exact, and
// works them into `unary`.
void bd_select_dual_reprice(bd_select_dual *dual);

// Takes over the messages of another state of the same model.
void bd_select_dual_copy(bd_select_dual *dual, const bd_select_dual *from);

// Passes messages once up and once down the order.
void bd_select_dual_pass(bd_select_dual *dual);

// The bound that the state proves right after a pass, above the model's constant, rounding errors
// deducted. `slack`, unless
// NULL, has room for a number per strategy: how much the bound rises at least when it is chosen.
double bd_select_dual_bound(bd_select_dual *dual, double *slack);
#endif
