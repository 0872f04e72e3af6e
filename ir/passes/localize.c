// The pass `localize`: masks, and whatever else is computed from constants and integers alone, is
// computed where it is read, so that functions for layers need not hand it on. It has no gradient.
#include "ir/pass.h"
#include "ir/passes/recover/edit.h"
#include "ir/passes/rewrite.h"

// Trees of more ops stay where they are.
enum { MAX_TREE = 64 };

typedef struct localizer {
  const bool *plain; // per value: made of constants and integers, cheaply
  int *stamp;        // per value: the op for which `made` holds, + 1
  bd_id *made;
} localizer;

// Sums along one dimension, such as of samples, are as cheap as their operands.
static bool is_plain_op(const bd_function *function, const bd_op *op) {
  unsigned traits = bd_op_get_info(op->kind)->traits;
  bool counts = op->kind == BD_OP_REDUCE_SUM && function->values[op->in[0]].type.rank == 1;
  return ((traits & BD_CHEAP) || counts) && (traits & BD_PURE) && !(traits & BD_RANDOM) &&
         op->out_count == 1;
}

static const bool *find_plain(bd_ctx *ctx, const bd_function *function) {
  bool *plain = BD_NEW_ARRAY(ctx->arena, bool, function->value_count);
  for (int i = 0; i < function->param_count; ++i) {
    bd_dtype dtype = function->values[function->params[i]].type.dtype;
    plain[function->params[i]] = !function->is_weight[i] && !bd_dtype_is_float(dtype);
  }
  for (int i = 0; i < function->op_count; ++i) {
    const bd_op *op = &function->ops[i];
    bool all = is_plain_op(function, op);
    for (int k = 0; k < op->in_count; ++k)
      all = all && plain[op->in[k]];
    if (all) plain[op->out[0]] = true;
  }
  return plain;
}

// How many ops the tree of a value has, counting what is shared as often as it is read; above
// MAX_TREE when there are more, or it is deeper.
static int count_tree(const bd_function *function, bd_id id, int depth) {
  int producer = function->values[id].producer, count = 1;
  if (producer < 0) return 0;
  if (depth == MAX_TREE) return MAX_TREE + 1;
  for (int k = 0; k < function->ops[producer].in_count && count <= MAX_TREE; ++k)
    count += count_tree(function, function->ops[producer].in[k], depth + 1);
  return count;
}

static bd_status copy_tree(bd_edit *e, const localizer *l, bd_id id, bd_id *out) {
  const bd_op *op = bd_edit_producer(e, id);
  if (!op) {
    *out = bd_edit_value(e, id);
    return BD_OK;
  }
  if (l->stamp[id] != e->at + 1) {
    bd_id in[BD_MAX_OPERANDS];
    for (int k = 0; k < op->in_count; ++k)
      BD_TRY(copy_tree(e, l, op->in[k], &in[k]));
    BD_TRY(bd_edit_emit(e, op->kind, op->in_count, in, op->attr_count, op->attrs, &l->made[id]));
    l->stamp[id] = e->at + 1;
  }
  *out = l->made[id];
  return BD_OK;
}

static bool reads_tree(const bd_edit *e, const localizer *l, bd_id id) {
  return l->plain[id] && bd_edit_producer(e, id) && !e->readers.is_result[id] &&
         count_tree(e->from, id, 0) <= MAX_TREE;
}

static bd_status localize(bd_edit *e, const void *user) {
  const localizer *l = user;
  const bd_op *op = &e->from->ops[e->at];
  bool any = false;
  if (l->plain[op->out[0]] || bd_op_get_info(op->kind)->level != BD_LOGICAL) return BD_OK;
  for (int k = 0; k < op->in_count; ++k)
    any = any || reads_tree(e, l, op->in[k]);
  if (!any) return BD_OK;
  bd_id in[BD_MAX_OPERANDS], made;
  for (int k = 0; k < op->in_count; ++k) {
    in[k] = bd_edit_value(e, op->in[k]);
    if (reads_tree(e, l, op->in[k])) BD_TRY(copy_tree(e, l, op->in[k], &in[k]));
  }
  BD_TRY(bd_edit_emit(e, op->kind, op->in_count, in, op->attr_count, op->attrs, &made));
  for (int r = 0; r < op->out_count; ++r)
    bd_edit_stand(e, op->out[r], made + r);
  return BD_OK;
}

bd_status bd_pass_localize(bd_ctx *ctx, const bd_module *in, bd_module **out_module) {
  bd_module *module = bd_module_clone(ctx, in);
  for (int i = 0; i < module->function_count; ++i) {
    const bd_function *function = module->functions[i];
    int changes = 0;
    localizer l = {find_plain(ctx, function), BD_NEW_ARRAY(ctx->arena, int, function->value_count),
                   BD_NEW_ARRAY(ctx->arena, bd_id, function->value_count)};
    BD_TRY(bd_edit_run(ctx, localize, &l, &module->functions[i], &changes));
    module->functions[i] = bd_rewrite_drop_unused(ctx, module->functions[i]);
  }
  *out_module = module;
  return BD_OK;
}
