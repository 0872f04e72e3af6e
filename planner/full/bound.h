// What no plan of the full space beats.
#ifndef BD_PLANNER_FULL_BOUND_H
#define BD_PLANNER_FULL_BOUND_H
#include "ir/base/clock.h"
#include "planner/full/space.h"

// Every size of stage, mesh and micro-batch of the space counts: the layers' least seconds on each,
// spread over the devices (planner/full/floor.h), and where those hold more than there is room
// for, the least seconds under a price of a byte. At first layers are as fast as their work is
// evenly divided; those that the bound is made of are priced until that changes no more, the bound
// comes to `enough`, above which it does not go, a fixed number was priced, or `deadline` has
// passed, after which layers are spread over the devices roughly. It holds in any case.
BD_NODISCARD bd_status bd_full_bound(bd_ctx *ctx, const bd_full_space *space, double enough,
                                     bd_deadline deadline, double *out_seconds);
#endif
