// Private to the layer problem: a relaxation of it, in which every op is split as suits it best,
// whatever its neighbours do.
#ifndef BD_PLANNER_LAYER_APART_H
#define BD_PLANNER_LAYER_APART_H
#include "planner/layer/space.h"

typedef struct bd_layer_apart {
  double seconds; // of bd_layer_point; no choice takes less
  double summed;  // the same without what weights take
  struct bd_apart_op *ops;
} bd_layer_apart;

// Without what weights take. Constraints and forms do not count. Lives in space->tables, which are
// open, as are the ways between forms.
void bd_layer_take_apart(bd_layer_space *space, bd_layer_apart *out_apart);
// The same of a space that differs from that of `like`, weighed or not, in the tied form alone.
// What both find out is known to both; `like` lives as long.
void bd_layer_take_apart_as(bd_layer_space *space, const bd_layer_apart *like,
                            bd_layer_apart *out_apart);
// With it; INFINITY: no split goes with the tied form.
void bd_layer_weigh_apart(bd_layer_space *space, bd_layer_apart *apart);

// Of weighed ops: no choice with the splits of the option of a cluster takes less, however its
// weights are spread and whatever is kept; looked for as far as `enough`.
double bd_layer_apart_with(bd_layer_space *space, const bd_layer_apart *apart,
                           const bd_cluster_ops *cluster, const bd_layer_option *option,
                           double enough);

// Of that, what sums over ranks take of results of the function and of gradients that the cluster
// hands back, under an option: edges hold as much, but for those that are too wide
// (planner/layer/edge.h), and nodes (planner/layer/problem.h) none of it.
double bd_layer_apart_outer_sums(bd_layer_space *space, const bd_layer_apart *apart,
                                 const bd_cluster_ops *cluster, const bd_layer_option *option);
#endif
