// What the ops of a layer take under a split: forward, again, and in backward the ops that derive
// from them.
#ifndef BD_PLANNER_LAYER_WORK_H
#define BD_PLANNER_LAYER_WORK_H
#include "planner/layer/space.h"

// Splits of an op's loops over the axes of the mesh, numbered from 0.
int bd_layer_split_count(const bd_layer_space *space, int op);
int bd_layer_split_number(const bd_layer_space *space, int op, const int8_t split[BD_MAX_AXES]);

// What an op takes under a split; `forward` and `backward` alone are filled in.
const bd_op_work *bd_layer_work(bd_layer_space *space, int op, const int8_t split[BD_MAX_AXES]);
// Seconds of running it again in backward, under the same split.
double bd_layer_rerun_seconds(bd_layer_space *space, int op, const int8_t split[BD_MAX_AXES]);

// What the backward ops of a group read of a forward value when the group is split so; returns how
// many of at most `most` shardings.
int bd_layer_backward_needs(const bd_layer_space *space, int group, const int8_t split[BD_MAX_AXES],
                            bd_id value, int most, bd_sharding *out_needs);

// The product that makes a weight's gradient, where backward's ops of a group are split so; 0: none
// does.
double bd_layer_weight_product(const bd_layer_space *space, bd_id weight,
                               const int8_t group_split[BD_MAX_AXES]);

// The longest of the products of backward that derive from an op under a split and make no gradient
// of a weight, with the shortest start of them.
bd_cut_product bd_layer_gradient_product(const bd_layer_space *space, int group,
                                         const int8_t split[BD_MAX_AXES]);
#endif
