// Local search over large neighbourhoods: frees a set of nodes whose edges among each other form a
// forest, and chooses all their strategies anew by dynamic programming, with memory priced where
// the first answer exceeds it.
#ifndef BD_PLANNER_SELECT_IMPROVE_H
#define BD_PLANNER_SELECT_IMPROVE_H
#include "ir/base/clock.h"
#include "planner/select/state.h"

typedef struct bd_select_improver bd_select_improver;

// Lives in ctx->arena; moves `state`. `hint`: a likely price of each point, or 0.
bd_select_improver *bd_select_improver_create(bd_ctx *ctx, bd_select_state *state,
                                              const double *hint, uint64_t seed);

// Tries neighbourhoods until about `work` matrix entries were looked at. No elimination looks at
// more than `cap` combinations. Ends early once `deadline` has passed.
void bd_select_improve(bd_select_improver *improver, double work, double cap, bd_deadline deadline);

// Makes the best of the present choice and others: every node keeps its strategy or takes that of
// one of them.
void bd_select_fuse(bd_select_improver *improver, const int *const *choices, int count, double cap,
                    bd_deadline deadline);
#endif
