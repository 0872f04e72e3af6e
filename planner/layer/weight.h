// Private to the layer problem: how the weights of a cluster are stored, and what that costs.
#ifndef BD_PLANNER_LAYER_WEIGHT_H
#define BD_PLANNER_LAYER_WEIGHT_H
#include "planner/layer/space.h"

// Fills space->weight.
void bd_layer_find_weights(bd_ctx *ctx, bd_layer_space *space);

// One weight that an op reads: the form that its split wants, the one it is stored in, and that of
// its gradient's accumulators. Stored in another form, it is gathered before every op that reads
// it, into the workspace, and its gradient is scattered to the accumulators in every micro-batch.
typedef struct bd_weight_form {
  bool possible; // a weight that several ops or calls share cannot be had so from its one form
  bd_sharding wanted, stored, gradient;
} bd_weight_form;

bd_weight_form bd_layer_weight_form(const bd_layer_space *space, int op, int operand,
                                    const int8_t split[BD_MAX_AXES], const bd_layer_option *option);

// Mesh axes over which a weight of an op could be cut further, as a mask; and a weight of any op of
// a cluster.
unsigned bd_layer_op_spread_axes(const bd_layer_space *space, int op,
                                 const int8_t split[BD_MAX_AXES]);
unsigned bd_layer_spread_axes(const bd_layer_space *space, const bd_cluster_ops *cluster,
                              const bd_layer_option *option);

// What the weights of one op cost a micro-batch, their share of synchronization and update
// included; `rerun_seconds` more when backward runs the op again. And what a rank holds of them.
typedef struct bd_weight_cost {
  double seconds, rerun_seconds, state_bytes;
} bd_weight_cost;

// Never more than what the lowered functions take. INFINITY seconds when it is not possible. It
// depends on the split and on how the weights are spread alone, and is reckoned once for these.
bd_weight_cost bd_layer_weight_cost(bd_layer_space *space, int op, const int8_t split[BD_MAX_AXES],
                                    const bd_layer_option *option);
#endif
