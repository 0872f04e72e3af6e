#include "ir/partition.h"

#include "ir/reshard.h"
#include <assert.h>

// The conversion of one value in progress.
typedef struct reshard {
  bd_ctx *ctx;
  const bd_mesh *mesh;
  bd_function *function; // NULL: only count
  bd_id value;
  bd_sharding at;
  const bd_sharding *to;
  bd_loc loc;
  int cost, step_count;
  bd_reshard_step *steps; // recorded here, unless NULL
} reshard;

static void append(reshard *r, bd_op_kind kind, int axis, int8_t at, int attr_count,
                   const bd_attr *attrs) {
  bd_sharding before = r->at;
  r->at.at[axis] = at;
  if (r->steps) r->steps[r->step_count++] = (bd_reshard_step){kind, axis, before, r->at};
  if (!r->function) return;
  bd_type type = r->function->values[r->value].type;
  bd_id out = bd_function_add_value(r->ctx, r->function, NULL, type);
  r->function->values[out].sharding = r->at;
  r->function->values[out].has_sharding = true;
  bd_op *op = bd_function_add_op(r->ctx, r->function, kind, 1, &r->value, 1, &out, r->loc);
  bd_op_set_attr(r->ctx, op, bd_attr_int(r->ctx, "axis", axis));
  for (int i = 0; i < attr_count; ++i)
    bd_op_set_attr(r->ctx, op, attrs[i]);
  r->value = out;
}

static void append_along(reshard *r, bd_op_kind kind, int axis, int8_t at, int dim) {
  bd_attr attr = {0};
  if (r->function) attr = bd_attr_int(r->ctx, "dim", dim);
  append(r, kind, axis, at, 1, &attr);
}

static void append_all_reduce(reshard *r, int axis) {
  static const char *const combiners[] = {"sum", "max", "lse"};
  bd_attr attr = {0};
  if (r->function)
    attr = bd_attr_string(r->ctx, "combiner", combiners[BD_PARTIAL_SUM - r->at.at[axis]]);
  r->cost += 4;
  append(r, BD_OP_ALL_REDUCE, axis, BD_REPLICATED, 1, &attr);
}

static void append_all_to_all(reshard *r, int axis, int from, int to) {
  bd_attr attrs[2] = {{0}, {0}};
  if (r->function) {
    attrs[0] = bd_attr_int(r->ctx, "from", from);
    attrs[1] = bd_attr_int(r->ctx, "to", to);
  }
  r->cost += 2;
  append(r, BD_OP_ALL_TO_ALL, axis, (int8_t)to, 2, attrs);
}

// The last axis that cuts `dim`: the only one whose parts lie next to each other.
static int innermost(const reshard *r, int dim) {
  int last = -1;
  for (int axis = 0; axis < r->mesh->axes; ++axis)
    if (r->at.at[axis] == dim) last = axis;
  return last;
}

// Whether `axis` may start to cut dimension `dim` now: every axis that cuts it lies outside and
// stays, and every outer axis that shall cut it does so.
static bool may_enter(const reshard *r, int axis, int dim) {
  for (int other = 0; other < r->mesh->axes; ++other) {
    if (other == axis) continue;
    bool now = r->at.at[other] == dim, then = r->to->at[other] == dim;
    if (now && (other > axis || !then)) return false;
    if (then && !now && other < axis) return false;
  }
  return true;
}

// One step for one axis, of the kinds that shrink the value or keep its size. False: none applies.
static bool step_without_growth(reshard *r, bd_op_kind kind) {
  for (int axis = 0; axis < r->mesh->axes; ++axis) {
    int from = r->at.at[axis], to = r->to->at[axis];
    if (from == to || to < 0 || !may_enter(r, axis, to)) continue;
    if (kind == BD_OP_SHARD && from == BD_REPLICATED) {
      append_along(r, BD_OP_SHARD, axis, (int8_t)to, to);
      return true;
    }
    if (kind == BD_OP_REDUCE_SCATTER && from == BD_PARTIAL_SUM) {
      r->cost += 2;
      append_along(r, BD_OP_REDUCE_SCATTER, axis, (int8_t)to, to);
      return true;
    }
    if (kind == BD_OP_ALL_TO_ALL && from >= 0 && innermost(r, from) == axis) {
      append_all_to_all(r, axis, from, to);
      return true;
    }
  }
  return false;
}

static void gather_innermost(reshard *r, int dim) {
  r->cost += 3;
  append_along(r, BD_OP_ALL_GATHER, innermost(r, dim), BD_REPLICATED, dim);
}

static bool reduce_one(reshard *r, bool also_to_split) {
  for (int axis = 0; axis < r->mesh->axes; ++axis) {
    int from = r->at.at[axis], to = r->to->at[axis];
    if (from > BD_PARTIAL_SUM || from == to) continue;
    if (to == BD_REPLICATED || from != BD_PARTIAL_SUM || also_to_split) {
      append_all_reduce(r, axis);
      return true;
    }
  }
  return false;
}

static bool gather_one(reshard *r) {
  for (int axis = r->mesh->axes - 1; axis >= 0; --axis) {
    int from = r->at.at[axis];
    if (from < 0 || from == r->to->at[axis]) continue;
    // An inner axis of the same dimension has to make way first, and comes back later.
    gather_innermost(r, from);
    return true;
  }
  return false;
}

// A replica or partial sum that shall be cut where an inner axis already cuts.
static bool make_way(reshard *r) {
  for (int axis = 0; axis < r->mesh->axes; ++axis) {
    int to = r->to->at[axis];
    if (r->at.at[axis] == to || to < 0 || innermost(r, to) < 0) continue;
    gather_innermost(r, to);
    return true;
  }
  return reduce_one(r, true);
}

static void run(reshard *r) {
  for (int steps = 0; !bd_sharding_equal(&r->at, r->to); ++steps) {
    assert(steps < BD_MAX_RESHARD_STEPS);
    bool moved = step_without_growth(r, BD_OP_SHARD) ||
                 step_without_growth(r, BD_OP_REDUCE_SCATTER) || reduce_one(r, false) ||
                 step_without_growth(r, BD_OP_ALL_TO_ALL) || gather_one(r) || make_way(r);
    assert(moved);
    (void)moved;
  }
}

bd_status bd_reshard(bd_ctx *ctx, const bd_module *module, bd_function *function, bd_id value,
                     const bd_sharding *to, bd_loc loc, bd_id *out_value) {
  reshard r = {.ctx = ctx,
               .mesh = &module->mesh,
               .function = function,
               .value = value,
               .at = function->values[value].sharding,
               .to = to,
               .loc = loc};
  for (int axis = 0; axis < module->mesh.axes; ++axis)
    if (to->at[axis] <= BD_PARTIAL_SUM && to->at[axis] != r.at.at[axis])
      return bd_fail(ctx, BD_INTERNAL, loc, "a value cannot be made partial along mesh axis %d",
                     axis);
  run(&r);
  *out_value = r.value;
  return BD_OK;
}

int bd_reshard_rank(const bd_mesh *mesh, const bd_sharding *from, const bd_sharding *to) {
  reshard r = {.mesh = mesh, .at = *from, .to = to};
  for (int axis = 0; axis < mesh->axes; ++axis)
    if (to->at[axis] <= BD_PARTIAL_SUM && to->at[axis] != from->at[axis]) return -1;
  run(&r);
  return r.cost;
}

int bd_reshard_steps(const bd_mesh *mesh, const bd_sharding *from, const bd_sharding *to,
                     bd_reshard_step out_steps[BD_MAX_RESHARD_STEPS]) {
  reshard r = {.mesh = mesh, .at = *from, .to = to, .steps = out_steps};
  run(&r);
  return r.step_count;
}
