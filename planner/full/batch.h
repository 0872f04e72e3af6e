// What layers take at least on stages of every size, with micro-batches of one size.
#ifndef BD_PLANNER_FULL_BATCH_H
#define BD_PLANNER_FULL_BATCH_H
#include "ir/base/clock.h"
#include "ir/base/workers.h"
#include "planner/full/floor.h"
#include "planner/full/share.h"
#include "planner/full/space.h"
#include "planner/full/tie.h"
#include "planner/full/weight.h"

// What is the same for all micro-batches.
typedef struct bd_full_sizes {
  const bd_full_space *space;
  int count; // of sizes
  bd_floor_size *sizes;
  int *calls, *group_devices; // per run, per group
  bd_kinds kinds;             // runs that are alike are one kind
  int *run_of_kind;
  int *kind_of_layer;
  bd_full_ties ties;
  bool told; // shares of these layers are few enough to be told apart, and devices are of one group
} bd_full_sizes;

// Lives in ctx->arena.
bd_full_sizes bd_full_sizes_open(bd_ctx *ctx, const bd_full_space *space);

// What the meshes of one size take.
typedef struct bd_size_prices bd_size_prices;

// One size of micro-batch.
typedef struct bd_full_batch {
  int64_t micro_batch;
  int micro_batches;
  double *seconds;      // [run][size]: see bd_floor
  double *forward;      // [run][size]: of the work, forward alone
  double *both;         // [run][size]: forward and backward, without synchronization
  double *transfer;     // per size: the least to send and receive a message
  double *changing;     // ... and to receive it from a stage of another size, beyond that
  bd_pass_flops *flops; // per kind
  bool *priced;         // per size; else the seconds are those of its work alone
  int *mesh_count;      // per size that is priced
  bd_share_prices **meshes;
  const bd_size_prices **found; // per size: what is known of it, in use or not; NULL: nothing
} bd_full_batch;

// At first with the work of every layer, evenly divided over the devices. Lives in ctx->arena.
BD_NODISCARD bd_status bd_full_batch_open(bd_ctx *ctx, const bd_full_sizes *sizes,
                                          int64_t micro_batch, bd_full_batch *out_batch);

// A size of stages to be priced.
typedef struct bd_full_aim {
  bd_full_batch *batch;
  int size;
} bd_full_aim;

// Finds out what the meshes of these sizes take, side by side; batches use it once it is taken.
// Steps of `limit` seconds or more are of no interest. When the deadline has passed no mesh is
// begun any more, and nothing is known of the sizes of those left out.
BD_NODISCARD bd_status bd_full_batch_price(bd_ctx *ctx, bd_workers *workers,
                                           const bd_full_sizes *sizes, int count,
                                           const bd_full_aim *aims, double limit,
                                           bd_deadline deadline);

// Replaces the seconds of a size's work by the least over its meshes, which are known.
void bd_full_batch_take(const bd_full_sizes *sizes, bd_full_batch *batch, int size);

// A copy that takes sizes for itself. Lives in ctx->arena.
bd_full_batch bd_full_batch_copy(bd_ctx *ctx, const bd_full_sizes *sizes,
                                 const bd_full_batch *batch);

// Whether some stage of a size that is priced is short of room.
bool bd_full_batch_is_tight(const bd_full_sizes *sizes, const bd_full_batch *batch);

// Per share: the part of its stage's seconds that zero-bubble delays at most.
double *bd_full_batch_weights(bd_ctx *ctx, const bd_full_sizes *sizes, const bd_full_batch *batch);

// Per share: what a stage of a size with so many tapes takes at least of a micro-batch, messages
// aside; INFINITY: there is no such stage, or it takes `limit` seconds or more.
void bd_full_batch_shares(bd_ctx *ctx, const bd_full_sizes *sizes, const bd_full_batch *batch,
                          int size, double tapes, double limit, double *out_seconds);
#endif
