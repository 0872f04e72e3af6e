#include "ir/partition_balance.h"

#include "ir/balance.h"

static bd_id add_value(bd_versions *v, const char *name, bd_type type,
                       const bd_sharding *sharding) {
  bd_id id = bd_function_add_value(v->ctx, v->function, name, type);
  v->function->values[id].sharding = *sharding;
  v->function->values[id].has_sharding = true;
  return id;
}

// Loops of ops that move or add elements follow the result's dimensions.
static void split_as(bd_op *op, const bd_sharding *sharding) {
  op->has_split = true;
  for (int axis = 0; axis < BD_MAX_AXES; ++axis)
    op->split[axis] = sharding->at[axis] >= 0 ? sharding->at[axis] : -1;
}

// One or the other half of the rank's part of a value.
static bd_id add_half(bd_versions *v, const bd_balanced *b, bd_id whole, int dim, int half) {
  bd_value value = v->function->values[whole];
  value.type.dims[dim] /= 2;
  bd_id out = add_value(v, NULL, value.type, &value.sharding);
  bd_op *op =
      bd_function_add_op(v->ctx, v->function, BD_OP_ALTERNATE, 1, &whole, 1, &out, b->op->loc);
  bd_op_set_attr(v->ctx, op, bd_attr_int(v->ctx, "dim", dim));
  bd_op_set_attr(v->ctx, op, bd_attr_int(v->ctx, "chunk", b->chunk));
  bd_op_set_attr(v->ctx, op, bd_attr_int(v->ctx, "half", half));
  split_as(op, &value.sharding);
  return out;
}

// Swaps what ranks hold with those at the mirrored place along the axes that cut the queries.
static bd_id add_mirrors(bd_versions *v, const bd_balanced *b, bd_id id, int dim) {
  for (int axis = 0; axis < v->module->mesh.axes; ++axis) {
    bd_value value = v->function->values[id];
    if (value.sharding.at[axis] != dim || v->module->mesh.size[axis] == 1) continue;
    bd_id out = add_value(v, NULL, value.type, &value.sharding);
    bd_op *op = bd_function_add_op(v->ctx, v->function, BD_OP_MIRROR, 1, &id, 1, &out, b->op->loc);
    bd_op_set_attr(v->ctx, op, bd_attr_int(v->ctx, "axis", axis));
    bd_op_set_attr(v->ctx, op, bd_attr_int(v->ctx, "dim", dim));
    id = out;
  }
  return id;
}

// Other ops that read the same value bring its chunks for themselves, as they are priced.
static bool has_chunks(const bd_versions *v, const bd_chunks *chunks, int group,
                       const bd_sharding *sharding) {
  return chunks->half[0] != BD_NO_ID && chunks->group == group &&
         bd_sharding_equal(&v->function->values[chunks->half[0]].sharding, sharding);
}

// What both ops read of operand i.
static bd_status bring_operand(bd_versions *v, bd_chunks *all, const bd_balanced *b, int i,
                               bd_id out[2]) {
  bd_chunks *chunks = &all[b->op->in[i]];
  int dim = bd_balance_dim(b->map, b->map->in[i]);
  if (dim < 0 || !has_chunks(v, chunks, b->op->group, &b->need[i])) {
    bd_id whole;
    BD_TRY(bd_versions_get(v, b->op->in[i], 0, &b->need[i], b->op->loc, &whole));
    out[0] = out[1] = whole;
    if (dim < 0) return BD_OK;
    chunks->group = b->op->group;
    chunks->half[0] = add_half(v, b, whole, dim, 0);
    chunks->half[1] = add_mirrors(v, b, add_half(v, b, whole, dim, 1), dim);
  }
  out[0] = chunks->half[0], out[1] = chunks->half[1];
  return BD_OK;
}

static void add_chunk_op(bd_versions *v, bd_chunks *all, const bd_balanced *b, int half,
                         const bd_id *in) {
  const bd_op *op = b->op;
  bd_id out[BD_MAX_RESULTS];
  for (int i = 0; i < op->out_count; ++i) {
    bd_type type = b->types[i];
    int dim = bd_balance_dim(b->map, b->map->out[i]);
    if (dim >= 0) type.dims[dim] /= 2;
    out[i] = all[op->out[i]].half[half] = add_value(v, NULL, type, &b->made[i]);
    all[op->out[i]].group = op->group;
  }
  bd_op *copy = bd_function_add_op(v->ctx, v->function, op->kind, op->in_count, in, op->out_count,
                                   out, op->loc);
  copy->attr_count = op->attr_count;
  copy->attrs = op->attrs;
  bd_op_drop_attr(v->ctx, copy, BD_BALANCED_ATTR);
  bd_op_set_attr(v->ctx, copy, bd_attr_int(v->ctx, "chunk", b->chunk));
  bd_op_set_attr(v->ctx, copy, bd_attr_int(v->ctx, "half", half));
  copy->recomputed = op->recomputed;
  copy->has_split = true;
  for (int axis = 0; axis < BD_MAX_AXES; ++axis)
    copy->split[axis] = b->split[axis];
}

bd_status bd_balance_op(bd_versions *v, bd_chunks *chunks, const bd_balanced *b) {
  bd_id in[2][BD_MAX_OPERANDS];
  for (int i = 0; i < b->op->in_count; ++i) {
    bd_id both[2];
    BD_TRY(bring_operand(v, chunks, b, i, both));
    in[0][i] = both[0], in[1][i] = both[1];
  }
  for (int half = 0; half < 2; ++half)
    add_chunk_op(v, chunks, b, half, in[half]);
  return BD_OK;
}

void bd_balance_result(bd_versions *v, const bd_chunks *chunks, const bd_balanced *b, int result,
                       bd_id out) {
  const bd_chunks *own = &chunks[b->op->out[result]];
  int dim = bd_balance_dim(b->map, b->map->out[result]);
  bd_id in[2] = {own->half[0], own->half[1]};
  if (dim >= 0) in[1] = add_mirrors(v, b, in[1], dim);
  bd_op *op = bd_function_add_op(v->ctx, v->function, dim >= 0 ? BD_OP_INTERLEAVE : BD_OP_ADD, 2,
                                 in, 1, &out, b->op->loc);
  if (dim >= 0) {
    bd_op_set_attr(v->ctx, op, bd_attr_int(v->ctx, "dim", dim));
    bd_op_set_attr(v->ctx, op, bd_attr_int(v->ctx, "chunk", b->chunk));
  }
  split_as(op, &b->made[result]);
}
