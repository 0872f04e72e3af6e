// Raises a bound by steps along subgradients of the prices (Held, Wolfe, Crowder, "Validation of
// subgradient optimization", Mathematical Programming 6, 1974), with passes of messages between.
#ifndef BD_PLANNER_SELECT_ASCENT_H
#define BD_PLANNER_SELECT_ASCENT_H
#include "ir/base/clock.h"
#include "planner/select/state.h"

typedef struct bd_select_ascent {
  const bd_select_model *model;
  bd_select_model loose; // the model without memory
  bd_select_dual *dual;
  bd_select_state *free; // what the messages propose without regard to memory
  double bound;          // the best proven; -INFINITY before the first step
  double *best_price;    // its prices, of each point
  double *excess, *direction;
  double gain; // what the next step would raise the bound by if it were linear
  int since;   // steps since the bound rose
} bd_select_ascent;

// Lives in ctx->arena. `price`: of each point, where to begin, or NULL.
bd_select_ascent *bd_select_ascent_create(bd_ctx *ctx, const bd_select_model *model,
                                          const double *price);

// Passes messages at most `passes` times without moving prices, until the bound hardly rises; a few
// times even past the deadline, so that there is a bound.
void bd_select_ascent_settle(bd_select_ascent *ascent, int passes, bd_deadline deadline);

// Takes over prices, messages and bound of another ascent on the same model.
void bd_select_ascent_copy(bd_select_ascent *ascent, const bd_select_ascent *from);

// Passes messages, proposes a choice in `free`, and moves the prices. Allocates nothing.
void bd_select_ascent_step(bd_select_ascent *ascent, bd_deadline deadline);

// Lets the next steps be as long as the first ones.
void bd_select_ascent_shake(bd_select_ascent *ascent);

// Returns to the best prices and passes messages there.
void bd_select_ascent_return(bd_select_ascent *ascent);

// Matrix entries that a step looks at.
double bd_select_ascent_step_work(const bd_select_model *model);
#endif
