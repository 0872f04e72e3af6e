// The least that an op of a layer costs once neighbours are fused with it.
#ifndef BD_PLANNER_LAYER_OP_H
#define BD_PLANNER_LAYER_OP_H
#include "planner/layer/space.h"

// Pointwise ops in a row that ir/fuse.h may join run as one kernel, which only moves what enters
// and leaves the row: each op answers for its share of that, the first one for the launch.
// `forward`: the function whose values a backward one restores, NULL of a forward one. What
// backward may make again in the kernel of its first row is no part of that.
double bd_layer_op_seconds(const bd_cost_model *cost, const bd_function *function,
                           const bd_function *forward, int op, const bd_index_map *map,
                           const int8_t split[BD_MAX_AXES]);

// The same, divided evenly over all ranks of the mesh: no split makes it less.
double bd_layer_even_seconds(const bd_cost_model *cost, const bd_function *function,
                             const bd_function *forward, int op, const bd_index_map *map);

// Bytes of a value on one rank, divided evenly over all ranks of the mesh: no form has less.
double bd_layer_even_bytes(const bd_cost_model *cost, const bd_type *type);

// What it takes more that the tape keeps a value of the forward function: where it would live and
// die inside a row, it is written, and read again by every op of the row that wants it; and the
// first row of backward reads it, where it might be made again.
double bd_layer_kept_seconds(const bd_cost_model *cost, const bd_function *function,
                             const bd_function *backward, bd_id value, const bd_sharding *sharding);

// The least for a copy of the op in the backward function: copies come before the gradients, in the
// order of forward, and pointwise ones move what is surely in memory, in a kernel that they may
// share with the first row of gradients.
double bd_layer_clone_seconds(const bd_cost_model *cost, const bd_function *function,
                              const bd_function *backward, int op, const bd_index_map *map,
                              const int8_t split[BD_MAX_AXES]);

// The same, divided evenly over all ranks of the mesh.
double bd_layer_even_clone_seconds(const bd_cost_model *cost, const bd_function *function,
                                   const bd_function *backward, int op, const bd_index_map *map);
#endif
