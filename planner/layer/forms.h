// How a cluster's ops are split under an option, and which forms their values have.
#ifndef BD_PLANNER_LAYER_FORMS_H
#define BD_PLANNER_LAYER_FORMS_H
#include "planner/layer/space.h"

// The split of any op of a cluster under an option (followers: from the form they follow); false
// when the op cannot be split so.
bool bd_layer_split(const bd_layer_space *space, const bd_cluster_ops *cluster,
                    const bd_layer_option *option, int op, int8_t out_split[BD_MAX_AXES]);

// How a value leaves its op, and how it settles; results of the function settle in the boundary.
bd_sharding bd_layer_produced(const bd_layer_space *space, const bd_cluster_ops *cluster,
                              const bd_layer_option *option, bd_id value);
bd_sharding bd_layer_form(const bd_layer_space *space, const bd_cluster_ops *cluster,
                          const bd_layer_option *option, bd_id value);
#endif
