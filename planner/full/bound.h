// What no plan of the full space beats.
#ifndef BD_PLANNER_FULL_BOUND_H
#define BD_PLANNER_FULL_BOUND_H
#include "ir/base/clock.h"
#include "planner/full/space.h"

// Every size of stage, mesh and micro-batch of the space counts. Parts of the space (part.h) are
// bounded with layers in fractions (floor.h), then as a whole within what stages have room for
// (whole.h). At first layers are as fast as their work is evenly divided; those that the least
// bound is made of are priced, until that changes no more, the bound comes to `enough`, above which
// it does not go, a fixed number was priced, or `deadline` has passed. It holds in any case.
BD_NODISCARD bd_status bd_full_bound(bd_ctx *ctx, const bd_full_space *space, double enough,
                                     bd_deadline deadline, double *out_seconds);
#endif
