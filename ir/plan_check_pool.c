// What counts over the samples of a rank is cut in one way (ir/pool.h), and its numbers are i32.
#include "ir/plan_check_pool.h"
#include "ir/pool.h"
#include <string.h>

typedef struct checking {
  bd_ctx *ctx;
  const bd_plan *plan;
  const bd_mesh *mesh;
  const bd_strategy *strategy;
  const bd_function *function;
  const bool *pooled;
} checking;

static bd_loc place_of_op(const checking *c, int op) {
  return c->strategy->op_loc ? c->strategy->op_loc[op] : c->strategy->loc;
}

static bd_status check_value(const checking *c, int op, unsigned axes, bd_id id) {
  const bd_value *value = &c->function->values[id];
  unsigned lie = bd_sample_axes(c->mesh, &value->type, &c->strategy->form[id]);
  if (!c->pooled[id] || lie == axes) return BD_OK;
  return bd_fail(c->ctx, BD_INVALID, place_of_op(c, op),
                 "strategy '%s': op %d (%s) has its samples cut over other mesh axes than '%s', "
                 "which counts over the samples of a rank: both must be cut alike",
                 c->strategy->name, op, bd_op_get_info(c->function->ops[op].kind)->name,
                 value->name);
}

// The rows and tokens of all samples of a rank have numbers.
static bd_status check_numbers(const checking *c, int op, unsigned axes) {
  const bd_op *at = &c->function->ops[op];
  int64_t samples = c->plan->micro_batch, most = 0;
  for (int axis = 0; axis < c->mesh->axes; axis++)
    if (axes >> axis & 1u) samples /= c->mesh->size[axis];
  for (int k = 0; k < at->in_count + at->out_count; k++) {
    const bd_type *type =
        &c->function->values[k < at->in_count ? at->in[k] : at->out[k - at->in_count]].type;
    if (type->rank > 1 && type->dims[0] == BD_DIM_BATCH && type->dims[1] > most)
      most = type->dims[1];
  }
  if (!bd_op_pools(at) || most <= INT32_MAX / samples) return BD_OK;
  return bd_fail(c->ctx, BD_INVALID, place_of_op(c, op),
                 "strategy '%s': op %d (%s): %lld samples of %lld rows each on a rank are more "
                 "than an i32 numbers; smaller micro-batches have fewer",
                 c->strategy->name, op, bd_op_get_info(at->kind)->name, (long long)samples,
                 (long long)most);
}

static bd_status check_op(const checking *c, int index) {
  const bd_op *op = &c->function->ops[index];
  bool reads = bd_op_pools(op);
  bd_index_map map;
  bd_type types[BD_MAX_RESULTS];
  int8_t split[BD_MAX_AXES];
  for (int k = 0; k < op->in_count; k++)
    reads = reads || c->pooled[op->in[k]];
  if (!reads) return BD_OK;
  BD_TRY(bd_op_infer(c->ctx, c->function, op, &map, types));
  memset(split, -1, sizeof split);
  for (int axis = 0; axis < c->mesh->axes; axis++)
    split[axis] = (int8_t)bd_index_find(&map, c->strategy->split[index][axis]);
  unsigned axes = bd_split_sample_axes(&map, c->mesh, split);
  for (int k = 0; k < op->in_count; k++)
    BD_TRY(check_value(c, index, axes, op->in[k]));
  for (int k = 0; k < op->out_count; k++)
    BD_TRY(check_value(c, index, axes, op->out[k]));
  return check_numbers(c, index, axes);
}

bd_status bd_plan_check_pool(bd_ctx *ctx, const bd_plan *plan, const bd_mesh *mesh,
                             const bd_strategy *strategy, const bd_function *function) {
  checking c = {ctx, plan, mesh, strategy, function, bd_pooled_values(ctx, function, NULL)};
  for (int i = 0; i < function->op_count; i++)
    BD_TRY(check_op(&c, i));
  return BD_OK;
}
