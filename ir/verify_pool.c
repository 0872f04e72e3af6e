// Where values of pools may stand (ir/pool.h). They mean something under one cut of the batch: ops
// that would mix rows, or samples with rows, take none, none leaves its function, and all ops and
// forms of them have one cut.
#include "ir/pool.h"
#include "ir/verify_internal.h"

// Ops that do with each row, or each sample, by itself what they do, or add them up. So do those
// that are pointwise.
static const bool by_rows[BD_OP_KIND_COUNT] = {
    [BD_OP_REDUCE_SUM] = true, [BD_OP_BROADCAST] = true, [BD_OP_PERMUTE] = true,
    [BD_OP_RESHAPE] = true,    [BD_OP_GATHER] = true,    [BD_OP_EMBED] = true,
    [BD_OP_CONTRACT] = true,
};

static bool goes_by_rows(const bd_op *op) {
  unsigned traits = bd_op_get_info(op->kind)->traits;
  bool pointwise = (traits & BD_POINTWISE) && !(traits & BD_RANDOM);
  bool within_samples = op->kind == BD_OP_CUMSUM && bd_op_int(op, "dim", 0) > 0;
  return bd_op_pools(op) || by_rows[op->kind] || pointwise || within_samples;
}

// Which operands of an op that counts over samples are pooled, as bits: numbers and rows, but not
// tokens, and of sums and queues what each sample has.
static unsigned wanted_of(const bd_op *op) {
  if (op->kind == BD_OP_CUMSUM) return 0;
  if (op->kind == BD_OP_ROW_ITEMS) return 1u << 1;
  if (op->kind == BD_OP_SEARCH) return 1u << 0;
  if (op->kind == BD_OP_ROUTE) return 1u << 1 | 1u << 2 | (bd_op_int(op, "inverse", 0) ? 1u : 0u);
  return 1u << 0 | 1u << 2;
}

static bd_status verify_operands(bd_verifier *v, const bd_function *function, const bd_op *op,
                                 const bool *pooled) {
  const char *name = bd_op_get_info(op->kind)->name;
  unsigned found = 0;
  for (int i = 0; i < op->in_count; ++i) {
    if (!pooled[op->in[i]]) continue;
    found |= 1u << i;
    if (!goes_by_rows(op))
      return bd_fail(
          v->ctx, BD_INVALID, op->loc,
          "%%%s counts over the samples of a rank, or lies by what does: %s would depend "
          "on how the batch is cut",
          function->values[op->in[i]].name, name);
  }
  unsigned wanted = bd_op_pools(op) ? wanted_of(op) : found;
  for (int i = 0; i < op->in_count; ++i)
    if ((found ^ wanted) >> i & 1u)
      return bd_fail(v->ctx, BD_INVALID, op->loc,
                     "operand %d of %s must %sbe pooled, which what counts over the samples of a "
                     "rank is, or lies by that",
                     i + 1, name, wanted >> i & 1u ? "" : "not ");
  return BD_OK;
}

static bd_status fail_cut(bd_verifier *v, const bd_function *function, const bd_op *op, bd_id id) {
  return bd_fail(v->ctx, BD_INVALID, op->loc,
                 "%%%s counts over the samples of a rank, but %s has them cut in another way",
                 function->values[id].name, bd_op_get_info(op->kind)->name);
}

// Under a plan: the samples of what the op reads and makes are cut as those of the op.
static bd_status verify_cut(bd_verifier *v, const bd_function *function, const bd_op *op,
                            const bool *pooled) {
  const bd_mesh *mesh = &v->module->mesh;
  bd_index_map map;
  bd_type types[BD_MAX_RESULTS];
  if (!op->has_split) return BD_OK;
  BD_TRY(bd_op_infer(v->ctx, function, op, &map, types));
  unsigned axes = bd_split_sample_axes(&map, mesh, op->split);
  for (int i = 0; i < op->in_count + op->out_count; ++i) {
    bd_id id = i < op->in_count ? op->in[i] : op->out[i - op->in_count];
    const bd_value *value = &function->values[id];
    if (pooled[id] && value->has_sharding &&
        bd_sample_axes(mesh, &value->type, &value->sharding) != axes)
      return fail_cut(v, function, op, id);
  }
  return BD_OK;
}

bd_status bd_verify_pool(bd_verifier *v, const bd_function *function) {
  bool backward = function->role == BD_ROLE_BACKWARD;
  const bd_function *forward =
      backward && function->peer ? bd_verifier_find(v, function->peer) : NULL;
  const bool *pooled = bd_pooled_values(v->ctx, function, forward);
  for (int i = 0; i < function->op_count; ++i) {
    const bd_op *op = &function->ops[i];
    if (bd_op_get_info(op->kind)->level != BD_LOGICAL) continue;
    if (!backward) BD_TRY(verify_operands(v, function, op, pooled));
    if (v->module->stage >= BD_STAGE_SHARDED) BD_TRY(verify_cut(v, function, op, pooled));
  }
  for (int i = 0; i < function->result_count; ++i)
    if (pooled[function->results[i]])
      return bd_fail(v->ctx, BD_INVALID, function->loc,
                     "%%%s counts over the samples of a rank, and cannot leave @%s",
                     function->values[function->results[i]].name, function->name);
  return BD_OK;
}
