// Raises a setting's bound by moving its prices: subgradients (Held, Wolfe and Crowder, "Validation
// of subgradient optimization", Mathematical Programming 6, 1974), with the length of a step by
// what is left to a target (Polyak, 1969), and a part of the step before in each (Camerini, Fratta
// and Maffioli, Mathematical Programming Study 3, 1975).
#ifndef BD_PLANNER_GRAPH_ASCENT_H
#define BD_PLANNER_GRAPH_ASCENT_H
#include "planner/graph/priced_path.h"

// Moves prices for at most `rounds` rounds so that the bound rises, and leaves those of the
// highest. Ends when it reaches `target` seconds, of which it may be no more than an estimate, or
// when there is no more work to do by the meter. `visit`, unless NULL, is shown the path of every
// round, which is of use only until it returns.
void bd_layers_prices_climb(bd_ctx *ctx, bd_layers_prices *prices, double target, int rounds,
                            void (*visit)(void *user, const bd_priced_path *path), void *user);
#endif
