#include "planner/layer/forms.h"
#include <string.h>

// The form that the anchor's first result settles in.
static bd_sharding anchor_form(const bd_layer_space *space, const bd_cluster_ops *cluster,
                               const bd_layer_option *option) {
  bd_sharding form =
      bd_split_result(&space->map[cluster->ops[0]], &space->request->cost.mesh, option->split, 0);
  for (int axis = 0; axis < BD_MAX_AXES; axis++)
    if (form.at[axis] < BD_REPLICATED) form.at[axis] = option->scatter[axis];
  return form;
}

bool bd_layer_split(const bd_layer_space *space, const bd_cluster_ops *cluster,
                    const bd_layer_option *option, int op, int8_t out_split[BD_MAX_AXES]) {
  if (op == cluster->ops[0]) {
    memcpy(out_split, option->split, BD_MAX_AXES);
    return true;
  }
  bd_sharding form = anchor_form(space, cluster, option);
  const bd_index_map *map = &space->map[op];
  for (int axis = 0; axis < BD_MAX_AXES; axis++)
    out_split[axis] = form.at[axis] < 0 ? -1 : map->out[0][form.at[axis]];
  return bd_split_valid(map, &space->request->cost.mesh, space->request->cost.micro_batch,
                        out_split);
}

bd_sharding bd_layer_produced(const bd_layer_space *space, const bd_cluster_ops *cluster,
                              const bd_layer_option *option, bd_id value) {
  const bd_value *v = &space->forward->values[value];
  int8_t split[BD_MAX_AXES];
  if (!bd_layer_split(space, cluster, option, v->producer, split)) memset(split, -1, sizeof split);
  return bd_split_result(&space->map[v->producer], &space->request->cost.mesh, split, v->result);
}

bd_sharding bd_layer_form(const bd_layer_space *space, const bd_cluster_ops *cluster,
                          const bd_layer_option *option, bd_id value) {
  bd_sharding form = bd_layer_produced(space, cluster, option, value);
  const bd_value *v = &space->forward->values[value];
  bool first = v->producer == cluster->ops[0] && v->result == 0;
  for (int axis = 0; axis < BD_MAX_AXES; axis++)
    if (form.at[axis] < BD_REPLICATED)
      form.at[axis] = first ? option->scatter[axis] : BD_REPLICATED;
  return form;
}
