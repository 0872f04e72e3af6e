// The options of a layer's clusters: every split, spread and keep that a request leaves open.
#ifndef BD_PLANNER_LAYER_OPTIONS_H
#define BD_PLANNER_LAYER_OPTIONS_H
#include "planner/layer/apart.h"

// Options that are left out.
typedef struct bd_layer_limit {
  const bd_layer_apart *apart;
  double seconds;  // they take a layer to this or more (bd_layer_apart_with)
  double left_out; // the least of what they do; INFINITY: there are none
} bd_layer_limit;

// The options of every cluster. With `limit`, but for those that take a layer to its seconds or
// more, of which it becomes the least; a cluster may be left with none.
void bd_layer_space_enumerate(bd_ctx *ctx, bd_layer_space *space, bd_layer_limit *limit);
#endif
