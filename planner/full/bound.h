// What no plan of the full space beats.
#ifndef BD_PLANNER_FULL_BOUND_H
#define BD_PLANNER_FULL_BOUND_H
#include "ir/base/clock.h"
#include "planner/full/floor.h"
#include "planner/full/space.h"

enum { BD_FULL_LEAST = 4 };

// A part of the space whose bound is low: who looks for better plans begins there.
typedef struct bd_full_least {
  double seconds; // no plan of the part takes less
  int64_t micro_batch;
  bd_schedule schedule;
  int chunks, about_stages, least_stages, most_stages;
  int size_count; // of the stages that the bound is made of
  bd_floor_size *sizes;
} bd_full_least;

typedef struct bd_full_bounds {
  double seconds; // no plan of the space takes less; INFINITY: there is none
  int least_count;
  bd_full_least least[BD_FULL_LEAST]; // the lowest first, each of another schedule, number of
                                      // chunks or micro-batch
} bd_full_bounds;

// Every size of stage, mesh and micro-batch of the space counts. Parts of the space (part.h) are
// bounded with layers in fractions (floor.h), then as a whole within what stages have room for
// (whole.h). At first layers are as fast as their work is evenly divided; those that the least
// bound is made of are priced, until that changes no more, the bound comes to `enough`, above which
// it does not go, a fixed number was priced, or `deadline` has passed. It holds in any case.
// `*out` lives in ctx->arena.
BD_NODISCARD bd_status bd_full_bound(bd_ctx *ctx, const bd_full_space *space, double enough,
                                     bd_deadline deadline, bd_full_bounds *out);
#endif
