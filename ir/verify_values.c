#include "ir/verify_internal.h"

static bd_status verify_sharding(bd_verifier *v, bd_loc loc, const bd_value *value) {
  const bd_mesh *mesh = &v->module->mesh;
  if (v->module->stage < BD_STAGE_SHARDED)
    return bd_fail(v->ctx, BD_INVALID, loc, "%%%s is sharded in a %s module", value->name,
                   bd_stage_name(v->module->stage));
  int splits[BD_MAX_RANK] = {0};
  for (int axis = 0; axis < BD_MAX_AXES; ++axis) {
    int at = value->sharding.at[axis];
    if (at < BD_PARTIAL_LSE || at >= value->type.rank)
      return bd_fail(v->ctx, BD_INVALID, loc, "%%%s is split along a dimension it does not have",
                     value->name);
    if (axis >= mesh->axes && at != BD_REPLICATED)
      return bd_fail(v->ctx, BD_INVALID, loc, "%%%s is split over an axis the mesh does not have",
                     value->name);
    if (at >= 0) ++splits[at];
  }
  for (int d = 0; d < value->type.rank; ++d) {
    int64_t extent = bd_extent(value->type.dims[d], v->module->micro_batch);
    int64_t parts = bd_sharding_parts(mesh, &value->sharding, d);
    bool must_divide = splits[d] > 1 || value->type.dims[d] == BD_DIM_BATCH;
    if (must_divide && extent % parts != 0)
      return bd_fail(v->ctx, BD_INVALID, loc,
                     "dimension %d of %%%s has %lld elements, which %lld parts do not divide", d,
                     value->name, (long long)extent, (long long)parts);
  }
  return BD_OK;
}

static bd_status verify_value(bd_verifier *v, const bd_function *function, bd_id id) {
  const bd_value *value = &function->values[id];
  bd_loc loc = value->producer >= 0 && value->producer < function->op_count
                   ? function->ops[value->producer].loc
                   : function->loc;
  if (!value->name || !bd_is_identifier(value->name))
    return bd_fail(v->ctx, BD_INVALID, loc, "a value's name is made of letters, digits, _ and .");
  BD_TRY(bd_verify_type(v, loc, bd_intern_f(v->ctx, "%%%s", value->name), &value->type));
  if (value->has_sharding) BD_TRY(verify_sharding(v, loc, value));
  if (value->segment != BD_SEGMENT_NONE && v->module->stage < BD_STAGE_SPMD)
    return bd_fail(v->ctx, BD_INVALID, loc, "%%%s has a place in a %s module", value->name,
                   bd_stage_name(v->module->stage));
  if ((unsigned)value->segment >= BD_SEGMENT_COUNT || value->offset_bytes < 0)
    return bd_fail(v->ctx, BD_INVALID, loc, "%%%s has no valid place", value->name);
  bool inner = v->module->stage == BD_STAGE_SPMD && function != v->module->main;
  if (inner && !value->has_sharding)
    return bd_fail(v->ctx, BD_INVALID, loc, "%%%s has no sharding", value->name);
  return BD_OK;
}

// Marks a definition; a value has one.
static bd_status define(bd_verifier *v, const bd_function *function, bd_name_map *names,
                        bool *defined, bd_loc loc, bd_id id, int producer, int result) {
  if (id < 0 || id >= function->value_count)
    return bd_fail(v->ctx, BD_INVALID, loc, "a result is no value of the function");
  const bd_value *value = &function->values[id];
  if (value->producer != producer || (producer >= 0 && value->result != result))
    return bd_fail(v->ctx, BD_INVALID, loc, "%%%s does not know what makes it", value->name);
  BD_TRY(verify_value(v, function, id));
  if (defined[id] || !bd_name_map_add(names, value->name, id))
    return bd_fail(v->ctx, BD_INVALID, loc, "%%%s is defined twice", value->name);
  defined[id] = true;
  return BD_OK;
}

static bd_status verify_uses(bd_verifier *v, const bd_function *function, const bool *defined,
                             bd_loc loc, const bd_id *ids, int count) {
  for (int i = 0; i < count; ++i) {
    if (ids[i] < 0 || ids[i] >= function->value_count)
      return bd_fail(v->ctx, BD_INVALID, loc, "operand %d is no value of the function", i + 1);
    if (!defined[ids[i]])
      return bd_fail(v->ctx, BD_INVALID, loc, "%%%s is not defined above its use",
                     function->values[ids[i]].name);
  }
  return BD_OK;
}

bd_status bd_verify_values(bd_verifier *v, const bd_function *function) {
  bd_name_map names = bd_name_map_init(v->ctx->arena);
  bool *defined = BD_NEW_ARRAY(v->ctx->arena, bool, function->value_count);
  for (int i = 0; i < function->param_count; ++i)
    BD_TRY(define(v, function, &names, defined, function->loc, function->params[i], -1, 0));
  for (int i = 0; i < function->op_count; ++i) {
    const bd_op *op = &function->ops[i];
    BD_TRY(verify_uses(v, function, defined, op->loc, op->in, op->in_count));
    for (int r = 0; r < op->out_count; ++r)
      BD_TRY(define(v, function, &names, defined, op->loc, op->out[r], i, r));
  }
  BD_TRY(
      verify_uses(v, function, defined, function->loc, function->results, function->result_count));
  return verify_uses(v, function, defined, function->loc, function->saves, function->save_count);
}
