// What a layer holds at least, and what it takes to hold less of it: everything divided evenly over
// all ranks of the mesh, which no choice beats.
#ifndef BD_PLANNER_LAYER_HOLDING_H
#define BD_PLANNER_LAYER_HOLDING_H
#include "planner/layer/space.h"

// Bytes, and the seconds of running ops again in backward to do without them.
typedef struct bd_layer_saving {
  double bytes, seconds;
} bd_layer_saving;

typedef struct bd_layer_holding {
  // One tape with all that backward reads, results and gradients that lie between calls, and
  // weights that no other call uses, with their gradients and the optimizer's states.
  double bytes;
  double workspace_bytes; // under every choice
  // Of `bytes`: whatever a choice does not keep takes at least what these take for as many bytes,
  // those that save the most for their seconds first.
  int saving_count;
  bd_layer_saving *savings;
} bd_layer_holding;

// What a layer holds with the tapes of so many micro-batches when its bytes are worth a price, in
// seconds each, and what it runs again for that; INFINITY: it holds as little as it can.
bd_layer_saving bd_layer_holding_at(const bd_layer_holding *holding, double price, int in_flight);

// Lives in ctx->arena.
bd_layer_holding bd_layer_holding_of(bd_ctx *ctx, const bd_layer_space *space);
#endif
