// The main function of the sharded stage made explicit: stages, transfers, conversions between
// calls.
#include "ir/partition.h"

#include "ir/partition_values.h"
#include <assert.h>

typedef struct partition {
  bd_versions versions;
  const bd_function *source;
  const bd_module *spmd;
  int *op_index; // per source op: its index in the new main
  int tags;
} partition;

static bd_function *main_of(const partition *p) {
  return p->versions.function;
}

static void set_stages(partition *p, int first_op, int stage) {
  for (int i = first_op; i < main_of(p)->op_count; ++i)
    main_of(p)->ops[i].stage = stage;
}

// Makes `source` known on `stage`: a parameter is there already; any other value is sent from where
// it was made, once per stage.
static void bring(partition *p, bd_id source, int stage, bd_loc loc) {
  if (bd_versions_first(&p->versions, source, stage) != BD_NO_ID) return;
  bd_ctx *ctx = p->versions.ctx;
  bd_id id = bd_versions_first(&p->versions, source, -1);
  bd_value value = main_of(p)->values[id];
  if (value.producer < 0) {
    bd_versions_add(&p->versions, source, stage, id);
    return;
  }
  int from = main_of(p)->ops[value.producer].stage, tag = p->tags++;
  bd_op *send = bd_function_add_op(ctx, main_of(p), BD_OP_SEND, 1, &id, 0, NULL, loc);
  bd_op_set_attr(ctx, send, bd_attr_int(ctx, "to", stage));
  bd_op_set_attr(ctx, send, bd_attr_int(ctx, "tag", tag));
  send->stage = from;
  bd_id there = bd_function_add_value(ctx, main_of(p), NULL, value.type);
  main_of(p)->values[there].sharding = value.sharding;
  main_of(p)->values[there].has_sharding = true;
  bd_op *recv = bd_function_add_op(ctx, main_of(p), BD_OP_RECV, 0, NULL, 1, &there, loc);
  bd_op_set_attr(ctx, recv, bd_attr_int(ctx, "from", from));
  bd_op_set_attr(ctx, recv, bd_attr_int(ctx, "tag", tag));
  recv->stage = stage;
  bd_versions_add(&p->versions, source, stage, there);
}

static bd_status get(partition *p, bd_id source, int stage, const bd_sharding *to, bd_loc loc,
                     bd_id *out_id) {
  bring(p, source, stage, loc);
  int first = main_of(p)->op_count;
  BD_TRY(bd_versions_get(&p->versions, source, stage, to, loc, out_id));
  set_stages(p, first, stage);
  return BD_OK;
}

static bd_id add_result(partition *p, bd_id source, int stage, const bd_sharding *sharding) {
  const bd_value *value = &p->source->values[source];
  bd_id id = bd_function_add_like(p->versions.ctx, main_of(p), value);
  main_of(p)->values[id].sharding = *sharding;
  main_of(p)->values[id].has_sharding = true;
  bd_versions_add(&p->versions, source, stage, id);
  return id;
}

static bd_status partition_call(partition *p, int index) {
  bd_ctx *ctx = p->versions.ctx;
  const bd_op *op = &p->source->ops[index];
  const bd_function *callee = bd_module_find(p->spmd, op->callee);
  assert(callee);
  int skipped = callee->role == BD_ROLE_BACKWARD ? callee->restore_count : 0;
  bd_id *in = BD_NEW_ARRAY(ctx->arena, bd_id, op->in_count);
  bd_id *out = BD_NEW_ARRAY(ctx->arena, bd_id, op->out_count);
  for (int i = 0; i < op->in_count; ++i) {
    const bd_sharding *form = &callee->values[callee->params[skipped + i]].sharding;
    BD_TRY(get(p, op->in[i], op->stage, form, op->loc, &in[i]));
  }
  for (int i = 0; i < op->out_count; ++i)
    out[i] = add_result(p, op->out[i], op->stage, &callee->values[callee->results[i]].sharding);
  bd_op *copy = bd_function_add_op(ctx, main_of(p), BD_OP_CALL, op->in_count, in, op->out_count,
                                   out, op->loc);
  copy->callee = op->callee;
  copy->stage = op->stage;
  copy->attr_count = op->attr_count;
  copy->attrs = BD_NEW_ARRAY(ctx->arena, bd_attr, op->attr_count);
  for (int i = 0; i < op->attr_count; ++i)
    copy->attrs[i] = op->attrs[i];
  p->op_index[index] = main_of(p)->op_count - 1;
  if (bd_op_find_attr(copy, "of"))
    bd_op_set_attr(ctx, copy, bd_attr_int(ctx, "of", p->op_index[bd_op_int(op, "of", 0)]));
  return BD_OK;
}

static bd_status partition_sum(partition *p, int index) {
  const bd_op *op = &p->source->ops[index];
  const bd_sharding *terms[2];
  bd_id in[2];
  assert(op->kind == BD_OP_ADD);
  for (int i = 0; i < 2; ++i) {
    bring(p, op->in[i], op->stage, op->loc);
    bd_id id = bd_versions_first(&p->versions, op->in[i], op->stage);
    terms[i] = &main_of(p)->values[id].sharding;
  }
  bd_sharding made = bd_sum_sharding(p->spmd, &p->source->values[op->out[0]].type, 2, terms);
  for (int i = 0; i < 2; ++i)
    BD_TRY(get(p, op->in[i], op->stage, &made, op->loc, &in[i]));
  bd_id out = add_result(p, op->out[0], op->stage, &made);
  bd_op *copy = bd_function_add_op(p->versions.ctx, main_of(p), BD_OP_ADD, 2, in, 1, &out, op->loc);
  copy->stage = op->stage;
  copy->has_split = true;
  // Pointwise loops follow the result's dimensions.
  for (int axis = 0; axis < BD_MAX_AXES; ++axis)
    copy->split[axis] = made.at[axis] >= 0 ? made.at[axis] : -1;
  p->op_index[index] = main_of(p)->op_count - 1;
  return BD_OK;
}

static void add_params(partition *p) {
  for (int i = 0; i < p->source->param_count; ++i) {
    bd_id source = p->source->params[i];
    const bd_value *value = &p->source->values[source];
    bd_id id = bd_function_add_param_like(p->versions.ctx, main_of(p), value);
    main_of(p)->values[id].has_sharding = true;
    main_of(p)->is_weight[i] = p->source->is_weight[i];
    bd_versions_add(&p->versions, source, 0, id);
  }
}

static bd_status partition_main(partition *p) {
  p->op_index = BD_NEW_ARRAY(p->versions.ctx->arena, int, p->source->op_count);
  p->versions.of = BD_NEW_ARRAY(p->versions.ctx->arena, bd_version *, p->source->value_count);
  add_params(p);
  for (int i = 0; i < p->source->op_count; ++i) {
    if (p->source->ops[i].kind == BD_OP_CALL)
      BD_TRY(partition_call(p, i));
    else
      BD_TRY(partition_sum(p, i));
  }
  for (int i = 0; i < p->source->result_count; ++i)
    bd_function_add_result(p->versions.ctx, main_of(p),
                           bd_versions_first(&p->versions, p->source->results[i], -1));
  bd_make_names_unique(p->versions.ctx, main_of(p));
  return BD_OK;
}

bd_status bd_partition(bd_ctx *ctx, const bd_module *sharded, bd_module **out_spmd) {
  assert(sharded->stage == BD_STAGE_SHARDED);
  bd_module *spmd = bd_module_clone(ctx, sharded);
  spmd->stage = BD_STAGE_SPMD;
  for (int i = 0; i < sharded->function_count; ++i)
    BD_TRY(bd_partition_function(ctx, sharded, sharded->functions[i], &spmd->functions[i]));
  bd_function *main = bd_function_create(ctx, sharded->main->name);
  main->loc = sharded->main->loc;
  main->role = sharded->main->role;
  partition p = {.source = sharded->main, .spmd = spmd};
  p.versions = (bd_versions){.ctx = ctx, .module = spmd, .function = main};
  BD_TRY(partition_main(&p));
  spmd->main = main;
  *out_spmd = spmd;
  return BD_OK;
}
