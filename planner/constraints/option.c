#include "planner/constraints/option.h"
#include "ir/balance.h"
#include "planner/layer/forms.h"
#include <string.h>

static bd_cut cut_of(const bd_layer_space *space, int op, int loop) {
  if (loop < 0) return BD_CUT_NONE;
  return bd_loop_cut(space->forward, &space->forward->ops[op], &space->map[op], loop,
                     space->request->sequence);
}

// Whether the axis could make a cut of this kind in an op, beside what the others do.
static bool can_cut(const bd_layer_space *space, int op, const int8_t split[BD_MAX_AXES], int axis,
                    bd_cut wanted) {
  const bd_cost_model *cost = &space->request->cost;
  const bd_index_map *map = &space->map[op];
  int8_t other[BD_MAX_AXES];
  memcpy(other, split, sizeof other);
  for (int loop = 0; loop < map->loops; loop++) {
    other[axis] = (int8_t)loop;
    if (cut_of(space, op, loop) == wanted &&
        bd_split_valid(map, &cost->mesh, cost->micro_batch, other))
      return true;
  }
  return false;
}

// What an axis of a pinned degree cuts in an op wherever it can: samples on a data axis, features
// of matrix products and the like on a tensor axis. BD_CUT_NONE: nothing in particular.
static bd_cut owed_cut(const bd_layer_space *space, int op, unsigned cuts) {
  bool library = bd_op_get_info(space->forward->ops[op].kind)->traits & BD_LIBRARY;
  if (cuts == bd_constraints_kind_cuts(BD_CUT_SAMPLES)) return BD_CUT_SAMPLES;
  if (cuts == bd_constraints_kind_cuts(BD_CUT_TOKENS)) return BD_CUT_TOKENS;
  if (cuts == bd_constraints_kind_cuts(BD_CUT_FEATURES) && library) return BD_CUT_FEATURES;
  return BD_CUT_NONE;
}

// Whether a weight of the op is whole on every rank, which no axis then cuts.
static bool has_whole_weight(const bd_layer_space *space, int op) {
  const bd_op *at = &space->forward->ops[op];
  for (int i = 0; i < at->in_count; i++)
    if (space->is_weight[at->in[i]] && space->weight[at->in[i]].shared &&
        space->weight[at->in[i]].whole)
      return true;
  return false;
}

static bool allow_degrees(const bd_layer_space *space, int op, const int8_t split[BD_MAX_AXES]) {
  const bd_constraints *c = space->request->constraints;
  const bd_mesh *mesh = &space->request->cost.mesh;
  int64_t degree[BD_CUT_COUNT] = {1, 1, 1, 1};
  for (int axis = 0; axis < mesh->axes; axis++) {
    bd_cut cut = cut_of(space, op, split[axis]);
    unsigned cuts = bd_constraints_axis_cuts(c, mesh, axis);
    if (!(cuts >> cut & 1u)) return false;
    bd_cut owed = owed_cut(space, op, cuts);
    bool possible = owed != BD_CUT_FEATURES || !has_whole_weight(space, op);
    if (owed != BD_CUT_NONE && possible && cut != owed && can_cut(space, op, split, axis, owed))
      return false;
    degree[cut] *= mesh->size[axis];
  }
  for (int i = 0; i < c->forbid_count; i++) {
    const bd_forbid *f = &c->forbids[i];
    if (f->what >= BD_CUT_COUNT || degree[f->what] < 2) continue;
    if (bd_forbid_hits(f, degree[f->what])) return false;
  }
  return true;
}

// What partial sums are scattered to is a cut as well.
static bool allow_scatter(const bd_layer_space *space, int op, const bd_layer_option *option) {
  const bd_layer_request *request = space->request;
  const bd_type *type = &space->forward->values[space->forward->ops[op].out[0]].type;
  for (int axis = 0; axis < request->cost.mesh.axes; axis++) {
    int dim = option->scatter[axis];
    if (dim < 0) continue;
    bool batch = type->dims[0] == BD_DIM_BATCH;
    bd_cut cut = dim == 0 && batch ? BD_CUT_SAMPLES
                 : dim == 1 && batch && request->sequence > 0 && type->dims[1] == request->sequence
                     ? BD_CUT_TOKENS
                     : BD_CUT_FEATURES;
    if (!(bd_constraints_axis_cuts(request->constraints, &request->cost.mesh, axis) >> cut & 1u))
      return false;
  }
  return true;
}

static bool allow_pins(const bd_layer_space *space, const bd_layer_option *option, int op,
                       const int8_t split[BD_MAX_AXES]) {
  const bd_strategy_pin *pin = space->request->pin;
  const bd_mesh *mesh = &space->request->cost.mesh;
  const bd_op *at = &space->forward->ops[op];
  for (int axis = 0; axis < mesh->axes; axis++) {
    char letter = split[axis] < 0 ? '-' : space->map[op].loop[split[axis]].letter;
    if (pin->split[op][axis] != '?' && pin->split[op][axis] != letter) return false;
  }
  if (pin->balanced[op] > 0 && !bd_balance_chunk(at, &space->map[op], mesh, split)) return false;
  bool kept = bd_layer_keeps(space, option, op);
  for (int r = 0; r < at->out_count; r++) {
    signed char saved = pin->saved[at->out[r]];
    if (saved >= 0 && (saved == 1) != (kept && space->needed[at->out[r]])) return false;
  }
  return true;
}

bool bd_constraints_allow_option(const bd_layer_space *space, const bd_cluster_ops *cluster,
                                 const bd_layer_option *option) {
  const bd_layer_request *request = space->request;
  if (request->constraints && !allow_scatter(space, cluster->ops[0], option)) return false;
  for (int i = 0; (request->constraints || request->pin) && i < cluster->op_count; i++) {
    int8_t split[BD_MAX_AXES];
    if (!bd_layer_split(space, cluster, option, cluster->ops[i], split)) continue;
    if (request->constraints && !allow_degrees(space, cluster->ops[i], split)) return false;
    if (request->pin && !allow_pins(space, option, cluster->ops[i], split)) return false;
  }
  return true;
}
