// Constraints on one layer's options.
#ifndef BD_PLANNER_CONSTRAINTS_OPTION_H
#define BD_PLANNER_CONSTRAINTS_OPTION_H
#include "planner/constraints/constraints.h"
#include "planner/layer/space.h"

// Whether a cluster may take an option: the kinds of cut that every mesh axis may make, forbidden
// degrees, and pinned splits and tapes.
bool bd_constraints_allow_option(const bd_layer_space *space, const bd_cluster_ops *cluster,
                                 const bd_layer_option *option);
#endif
