// Private to the layer problem: what a weight costs by the form in which it is stored.
#ifndef BD_PLANNER_LAYER_STORED_H
#define BD_PLANNER_LAYER_STORED_H
#include "planner/layer/weight.h"

// Its share of synchronization and update in every micro-batch, and what a rank holds of it and of
// what belongs to it; both the part of one of the ops that read it.
typedef struct bd_stored_cost {
  double seconds, state_bytes;
} bd_stored_cost;

// Of a weight that an op reads under a split. Never more than what the lowered functions take.
// Reckoned once for weights that are alike and gradients that are made alike.
bd_stored_cost bd_layer_stored_cost(bd_layer_space *space, bd_id weight, const bd_weight_form *form,
                                    const int8_t split[BD_MAX_AXES]);
#endif
