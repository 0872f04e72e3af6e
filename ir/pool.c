#include "ir/pool.h"

bool bd_op_pools(const bd_op *op) {
  return bd_op_is_grouped(op->kind) || op->kind == BD_OP_ROW_ITEMS ||
         bd_op_int(op, BD_POOLED_ATTR, 0) == 1;
}

static bool brings_back(const bd_op *op) {
  return op->kind == BD_OP_ROUTE && bd_op_int(op, "inverse", 0) == 1;
}

const bool *bd_pooled_values(bd_ctx *ctx, const bd_function *function, const bd_function *forward) {
  bool *pooled = BD_NEW_ARRAY(ctx->arena, bool, function->value_count);
  const bool *restored = forward ? bd_pooled_values(ctx, forward, NULL) : NULL;
  for (int i = 0; restored && i < function->restore_count; i++)
    pooled[function->params[i]] = restored[forward->saves[i]];
  for (int i = 0; i < function->op_count; i++) {
    const bd_op *op = &function->ops[i];
    bool makes = bd_op_pools(op);
    for (int k = 0; k < op->in_count; k++)
      makes = makes || pooled[op->in[k]];
    if (brings_back(op)) makes = false;
    for (int k = 0; k < op->out_count; k++)
      pooled[op->out[k]] = makes && bd_type_has_batch(&function->values[op->out[k]].type);
  }
  return pooled;
}

unsigned bd_sample_axes(const bd_mesh *mesh, const bd_type *type, const bd_sharding *sharding) {
  unsigned axes = 0;
  for (int axis = 0; axis < mesh->axes; axis++) {
    int dim = sharding->at[axis];
    if (mesh->size[axis] > 1 && dim >= 0 && type->dims[dim] == BD_DIM_BATCH) axes |= 1u << axis;
  }
  return axes;
}

unsigned bd_split_sample_axes(const bd_index_map *map, const bd_mesh *mesh,
                              const int8_t split[BD_MAX_AXES]) {
  unsigned axes = 0;
  for (int axis = 0; axis < mesh->axes; axis++)
    if (mesh->size[axis] > 1 && split[axis] >= 0 && map->loop[split[axis]].extent == BD_DIM_BATCH)
      axes |= 1u << axis;
  return axes;
}
