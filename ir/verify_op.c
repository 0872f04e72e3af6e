#include "ir/balance.h"
#include "ir/index_rule.h"
#include "ir/verify_internal.h"
#include <string.h>

static bd_status verify_level(bd_verifier *v, const bd_function *function, const bd_op *op) {
  const bd_op_info *info = bd_op_get_info(op->kind);
  bd_stage stage = v->module->stage;
  bool is_main = function == v->module->main;
  bool fits;
  if (info->level == BD_COLLECTIVE)
    fits = stage >= BD_STAGE_SPMD;
  else if (info->level == BD_CONTROL)
    fits = is_main;
  else
    fits = !is_main || (op->kind == BD_OP_ADD && stage > BD_STAGE_GRAPH);
  if (fits) return BD_OK;
  return bd_fail(v->ctx, BD_INVALID, op->loc, "%s cannot stand in %s of a %s module", info->name,
                 is_main ? "main" : "a function", bd_stage_name(stage));
}

static bd_status verify_arity(bd_verifier *v, const bd_op *op) {
  const bd_op_info *info = bd_op_get_info(op->kind);
  if (info->in != BD_VARIADIC && (op->in_count != info->in || op->in_count > BD_MAX_OPERANDS))
    return bd_fail(v->ctx, BD_INVALID, op->loc, "%s takes %d operands, found %d", info->name,
                   info->in, op->in_count);
  if (info->out != BD_VARIADIC && (op->out_count != info->out || op->out_count > BD_MAX_RESULTS))
    return bd_fail(v->ctx, BD_INVALID, op->loc, "%s makes %d results, found %d", info->name,
                   info->out, op->out_count);
  return BD_OK;
}

static bd_status verify_attrs(bd_verifier *v, const bd_op *op) {
  for (int i = 0; i < op->attr_count; ++i) {
    if (!bd_is_identifier(op->attrs[i].name))
      return bd_fail(v->ctx, BD_INVALID, op->loc,
                     "an attribute's name is made of letters, digits, _ and .");
    for (int j = 0; j < i; ++j)
      if (strcmp(op->attrs[i].name, op->attrs[j].name) == 0)
        return bd_fail(v->ctx, BD_INVALID, op->loc, "the attribute '%s' stands twice",
                       op->attrs[i].name);
  }
  return BD_OK;
}

// Sums of gradients in a backward function belong to no forward op. Partition inserts ops, so from
// spmd on a group is the number that it had before.
static bd_status verify_group(bd_verifier *v, const bd_function *function, const bd_op *op) {
  const bd_function *forward = function;
  if (function->role == BD_ROLE_BACKWARD && function->peer)
    forward = bd_verifier_find(v, function->peer);
  bool bounded = v->module->stage < BD_STAGE_SPMD && forward;
  int least = function->role == BD_ROLE_BACKWARD ? -1 : 0;
  if (op->group < least || (bounded && op->group >= forward->op_count))
    return bd_fail(v->ctx, BD_INVALID, op->loc, "group %d is no op of the forward function",
                   op->group);
  if (op->recomputed && (v->module->stage < BD_STAGE_SHARDED || function->role != BD_ROLE_BACKWARD))
    return bd_fail(v->ctx, BD_INVALID, op->loc,
                   "only ops of a backward function under a plan are recomputed");
  return BD_OK;
}

static bd_status verify_stage(bd_verifier *v, const bd_op *op) {
  bool placed = v->module->stage >= BD_STAGE_SHARDED && op->kind == BD_OP_CALL;
  if (placed && (op->stage < 0 || op->stage >= v->module->stages))
    return bd_fail(v->ctx, BD_INVALID, op->loc, "a call must have one of the %d stages",
                   v->module->stages);
  bool may = v->module->stage >= BD_STAGE_SHARDED;
  if (op->stage < -1 || (op->stage >= 0 && !may))
    return bd_fail(v->ctx, BD_INVALID, op->loc, "an op of a %s module has no pipeline stage",
                   bd_stage_name(v->module->stage));
  return BD_OK;
}

static bd_status verify_split(bd_verifier *v, const bd_op *op, const bd_index_map *map) {
  if (!op->has_split) return BD_OK;
  const bd_mesh *mesh = &v->module->mesh;
  if (v->module->stage < BD_STAGE_SHARDED)
    return bd_fail(v->ctx, BD_INVALID, op->loc, "an op of a %s module is not split",
                   bd_stage_name(v->module->stage));
  for (int axis = 0; axis < BD_MAX_AXES; ++axis) {
    int loop = op->split[axis];
    if (loop == -1) continue;
    if (axis >= mesh->axes || loop < 0 || loop >= map->loops)
      return bd_fail(v->ctx, BD_INVALID, op->loc, "axis %d splits a loop the op does not have",
                     axis);
    if (!bd_split_allowed(map, mesh, v->module->micro_batch, axis, loop))
      return bd_fail(v->ctx, BD_INVALID, op->loc, "axis %d cannot split loop %d (%c) of %s", axis,
                     loop, map->loop[loop].letter, bd_op_get_info(op->kind)->name);
    if (!bd_split_nested(map, mesh, v->module->micro_batch, op->split, axis))
      return bd_fail(v->ctx, BD_INVALID, op->loc,
                     "axis %d splits loop %d (%c) of %s, but axes before it leave more than one of "
                     "the loop that it runs within",
                     axis, loop, map->loop[loop].letter, bd_op_get_info(op->kind)->name);
  }
  return BD_OK;
}

// What a plan and the partition of its queries make of attention.
static bd_status verify_shared(bd_verifier *v, const bd_op *op) {
  bd_stage stage = v->module->stage;
  const char *name = NULL;
  if (!bd_op_attends(op->kind)) return BD_OK;
  if (stage < BD_STAGE_SHARDED && bd_op_find_attr(op, BD_BALANCED_ATTR)) name = BD_BALANCED_ATTR;
  if (stage < BD_STAGE_SPMD && bd_op_find_attr(op, "chunk")) name = "chunk";
  if (!name) return BD_OK;
  return bd_fail(v->ctx, BD_INVALID, op->loc, "attention of a %s module has no attribute %s",
                 bd_stage_name(stage), name);
}

// Of chunks each rank has one: only so they lie in a row there.
static bd_status verify_chunks(bd_verifier *v, const bd_op *op, const bd_index_map *map) {
  bool shared = bd_op_attends(op->kind);
  int64_t chunk = bd_op_int(op, "chunk", 0), parts = 1;
  if (!op->has_split || (!shared && op->kind != BD_OP_ALTERNATE && op->kind != BD_OP_INTERLEAVE))
    return BD_OK;
  int loop = shared ? bd_index_find(map, 't') : (int)bd_op_int(op, "dim", 0);
  for (int axis = 0; axis < v->module->mesh.axes; ++axis)
    if (op->split[axis] == loop) parts *= v->module->mesh.size[axis];
  if (chunk == 0 || map->loop[loop].extent == parts * chunk) return BD_OK;
  return bd_fail(v->ctx, BD_INVALID, op->loc,
                 "%lld parts of loop %c of %s are no chunks of %lld, one for each rank",
                 (long long)parts, map->loop[loop].letter, bd_op_get_info(op->kind)->name,
                 (long long)chunk);
}

static bd_status verify_logical(bd_verifier *v, const bd_function *function, const bd_op *op) {
  bd_index_map map;
  bd_type types[BD_MAX_RESULTS];
  BD_TRY(verify_shared(v, op));
  BD_TRY(bd_op_infer(v->ctx, function, op, &map, types));
  for (int i = 0; i < op->out_count; ++i) {
    const bd_value *value = &function->values[op->out[i]];
    if (bd_type_equal(&value->type, &types[i])) continue;
    bd_type found = value->type;
    return bd_fail(v->ctx, BD_INVALID, op->loc, "%%%s is declared %s, but %s makes %s", value->name,
                   bd_type_describe(v->ctx, &found), bd_op_get_info(op->kind)->name,
                   bd_type_describe(v->ctx, &types[i]));
  }
  BD_TRY(verify_split(v, op, &map));
  return verify_chunks(v, op, &map);
}

static bd_status verify_collective(bd_verifier *v, const bd_function *function, const bd_op *op) {
  int64_t axis = bd_op_int(op, "axis", -1);
  bool transfer = op->in_count == 0 || op->out_count == 0;
  if (!transfer && (axis < 0 || axis >= v->module->mesh.axes))
    return bd_fail(v->ctx, BD_INVALID, op->loc, "%s needs an `axis` of the mesh",
                   bd_op_get_info(op->kind)->name);
  if (transfer) return BD_OK;
  const bd_value *in = &function->values[op->in[0]], *out = &function->values[op->out[0]];
  if (!bd_type_equal(&in->type, &out->type))
    return bd_fail(v->ctx, BD_INVALID, op->loc, "%s keeps the type, found %s and %s",
                   bd_op_get_info(op->kind)->name, bd_type_describe(v->ctx, &in->type),
                   bd_type_describe(v->ctx, &out->type));
  return BD_OK;
}

bd_status bd_verify_op(bd_verifier *v, const bd_function *function, int index) {
  const bd_op *op = &function->ops[index];
  if ((unsigned)op->kind >= BD_OP_KIND_COUNT)
    return bd_fail(v->ctx, BD_INVALID, op->loc, "op %d has no kind", index);
  BD_TRY(verify_level(v, function, op));
  BD_TRY(verify_arity(v, op));
  BD_TRY(verify_attrs(v, op));
  BD_TRY(verify_group(v, function, op));
  BD_TRY(verify_stage(v, op));
  bd_op_level level = bd_op_get_info(op->kind)->level;
  if (level == BD_LOGICAL) return verify_logical(v, function, op);
  if (level == BD_COLLECTIVE) return verify_collective(v, function, op);
  return BD_OK;
}
