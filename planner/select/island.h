// One line of search: prices move along subgradients, each step's messages propose choices, the
// proposals are fused with the present choice (Lempitsky, Rother, Roth, Blake, "Fusion Moves for
// Markov Random Field Optimization", IEEE TPAMI 32(8), 2010), and neighbourhoods are searched.
// Islands differ by their seed alone and never look at each other: who runs them tells them of the
// best choice known.
#ifndef BD_PLANNER_SELECT_ISLAND_H
#define BD_PLANNER_SELECT_ISLAND_H
#include "ir/base/clock.h"
#include "planner/select/ascent.h"

typedef struct bd_select_island bd_select_island;

// Lives in ctx->arena. The nodes' least usages must fit in memory together. `price`: of each point,
// where to begin, or NULL.
bd_select_island *bd_select_island_create(bd_ctx *ctx, const bd_select_model *model,
                                          const double *price, uint64_t seed);

// Passes messages before prices move, or takes them from an island of the same model that has
// begun. To be called once, before the first round.
void bd_select_island_begin(bd_select_island *island, const bd_select_island *from,
                            bd_deadline deadline);

// A fixed amount of work, less when `deadline` passes. `guest`: a choice to be fused with the
// present one, or NULL. Allocates nothing.
void bd_select_island_round(bd_select_island *island, const int *guest, bd_deadline deadline);

// Starts over from what the messages now propose. `shake`: also moves the prices by long steps
// again, for other proposals at the expense of the bound.
void bd_select_island_restart(bd_select_island *island, bool shake);

// The best choice found, which fits in memory; its cost as the model counts.
const int *bd_select_island_best(const bd_select_island *island, double *out_cost);
// Its prices and messages, and the bound they prove.
bd_select_ascent *bd_select_island_ascent(bd_select_island *island);
#endif
