#include "planner/layer/work.h"
#include "planner/layer/op.h"
#include "planner/step/behind.h"
#include <math.h>
#include <string.h>

// Combinations of loops and of no loop, over the axes of the mesh.
int bd_layer_split_count(const bd_layer_space *space, int op) {
  int count = 1;
  for (int axis = 0; axis < space->request->cost.mesh.axes; axis++)
    count *= space->map[op].loops + 1;
  return count;
}

int bd_layer_split_number(const bd_layer_space *space, int op, const int8_t split[BD_MAX_AXES]) {
  int number = 0;
  for (int axis = 0; axis < space->request->cost.mesh.axes; axis++)
    number = number * (space->map[op].loops + 1) + split[axis] + 1;
  return number;
}

// Backward ops are split at the letters of their group where they can be.
static void backward_split(const bd_layer_space *space, int op,
                           const int8_t group_split[BD_MAX_AXES], int8_t out[BD_MAX_AXES]) {
  const bd_cost_model *cost = &space->request->cost;
  const bd_index_map *map = &space->backward_map[op];
  const bd_index_map *group = &space->map[space->backward->ops[op].group];
  for (int axis = 0; axis < BD_MAX_AXES; axis++) {
    int loop = group_split[axis];
    out[axis] = -1;
    if (loop < 0) continue;
    int own = bd_index_find(map, group->loop[loop].letter);
    if (own < 0 || !bd_split_allowed(map, &cost->mesh, cost->micro_batch, axis, own)) continue;
    out[axis] = (int8_t)own;
    if (!bd_split_nested(map, &cost->mesh, cost->micro_batch, out, axis)) out[axis] = -1;
  }
}

static double backward_seconds(const bd_layer_space *space, int group,
                               const int8_t group_split[BD_MAX_AXES]) {
  const bd_function *f = space->backward;
  double seconds = 0;
  for (int i = 0; i < f->op_count; i++) {
    int8_t split[BD_MAX_AXES];
    if (f->ops[i].group != group) continue;
    backward_split(space, i, group_split, split);
    seconds += bd_layer_op_seconds(&space->request->cost, f, space->forward, i,
                                   &space->backward_map[i], split);
  }
  return seconds;
}

double bd_layer_weight_product(const bd_layer_space *space, bd_id weight,
                               const int8_t group_split[BD_MAX_AXES]) {
  const bd_function *f = space->backward;
  for (int r = 0; r < f->result_count; r++) {
    int8_t split[BD_MAX_AXES];
    if (space->forward->params[f->gradient_of[r]] != weight) continue;
    int op = bd_step_product(f, f->results[r]);
    if (op < 0) return 0;
    backward_split(space, op, group_split, split);
    return bd_cost_choose_op(&space->request->cost, f, &f->ops[op], &space->backward_map[op],
                             split);
  }
  return 0;
}

bd_cut_product bd_layer_gradient_product(const bd_layer_space *space, int group,
                                         const int8_t group_split[BD_MAX_AXES]) {
  const bd_function *f = space->backward;
  bd_cut_product out = {0, INFINITY};
  for (int i = 0; i < f->op_count; i++) {
    int8_t split[BD_MAX_AXES];
    if (f->ops[i].group != group || f->ops[i].kind != BD_OP_CONTRACT ||
        bd_is_weight_gradient(space->forward, f, f->ops[i].out[0]))
      continue;
    backward_split(space, i, group_split, split);
    bd_cut_product one =
        bd_cost_cut_product(&space->request->cost, f, &f->ops[i], &space->backward_map[i], split);
    out.seconds = fmax(out.seconds, one.seconds);
    out.start_seconds = fmin(out.start_seconds, one.start_seconds);
  }
  return out;
}

int bd_layer_backward_needs(const bd_layer_space *space, int group,
                            const int8_t group_split[BD_MAX_AXES], bd_id value, int most,
                            bd_sharding *out) {
  const bd_function *f = space->backward;
  int count = 0;
  for (int i = 0; i < f->op_count; i++) {
    if (f->ops[i].group != group) continue;
    for (int k = 0; k < f->ops[i].in_count && count < most; k++) {
      int8_t split[BD_MAX_AXES];
      if (space->restores[f->ops[i].in[k]] != value) continue;
      backward_split(space, i, group_split, split);
      out[count++] =
          bd_split_operand(&space->backward_map[i], &space->request->cost.mesh, split, k);
    }
  }
  return count;
}

// Work depends on how many parts every loop is cut into, not on which axes of a size cut it.
static bd_op_work *work_of(bd_layer_space *space, int op, const int8_t split[BD_MAX_AXES]) {
  const bd_mesh *mesh = &space->request->cost.mesh;
  int8_t sorted[BD_MAX_AXES];
  memcpy(sorted, split, sizeof sorted);
  for (int a = 0; a < mesh->axes; a++)
    for (int b = a + 1; b < mesh->axes; b++)
      if (mesh->size[a] == mesh->size[b] && sorted[a] > sorted[b]) {
        int8_t held = sorted[a];
        sorted[a] = sorted[b];
        sorted[b] = held;
      }
  return &space->work[op][bd_layer_split_number(space, op, sorted)];
}

const bd_op_work *bd_layer_work(bd_layer_space *space, int op, const int8_t split[BD_MAX_AXES]) {
  bd_op_work *work = work_of(space, op, split);
  if (work->known) return work;
  work->known = true;
  work->forward =
      bd_layer_op_seconds(&space->request->cost, space->forward, NULL, op, &space->map[op], split);
  work->backward = backward_seconds(space, op, split);
  return work;
}

double bd_layer_rerun_seconds(bd_layer_space *space, int op, const int8_t split[BD_MAX_AXES]) {
  bd_op_work *work = work_of(space, op, split);
  if (work->clone_known) return work->clone;
  work->clone_known = true;
  work->clone = bd_layer_clone_seconds(&space->request->cost, space->forward, space->backward, op,
                                       &space->map[op], split);
  return work->clone;
}
