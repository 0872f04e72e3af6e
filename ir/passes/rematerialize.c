// The pass `rematerialize`: where backward reads, in one row of pointwise ops alone, what a
// pointwise op made of values that the row reads as well, the row makes it again. Its kernel then
// has it in registers, and nothing keeps it.
#include "ir/fuse.h"
#include "ir/pass.h"
#include <string.h>

// Pointwise ops of a backward function that run as one kernel where nothing is split otherwise.
typedef struct row {
  int first, last;
} row;

static bool is_pointwise(const bd_op *op) {
  return (bd_op_get_info(op->kind)->traits & BD_POINTWISE) != 0;
}

static bool reads(const bd_op *op, bd_id value) {
  return bd_ids_find(op->in, op->in_count, value) >= 0;
}

// The row in which all reads of a value are; false where there is none.
static bool find_row(const bd_function *f, bd_id value, row *out) {
  int first = 0;
  while (first < f->op_count && !reads(&f->ops[first], value))
    first++;
  if (first == f->op_count || !is_pointwise(&f->ops[first])) return false;
  *out = (row){first, first};
  while (bd_fuse_joins(f, out->first))
    out->first--;
  while (bd_fuse_joins(f, out->last + 1))
    out->last++;
  for (int i = out->last + 1; i < f->op_count; i++)
    if (reads(&f->ops[i], value)) return false;
  return bd_ids_find(f->results, f->result_count, value) < 0;
}

// The restored parameter that is a forward value; -1: there is none.
static int restored(const bd_function *forward, bd_id value) {
  return bd_ids_find(forward->saves, forward->save_count, value);
}

// Whether ops of the row read all that the forward op is made of.
static bool has_operands(const bd_function *forward, const bd_function *backward, const bd_op *op,
                         row in) {
  for (int k = 0; k < op->in_count; k++) {
    int param = restored(forward, op->in[k]);
    bool found = false;
    for (int i = in.first; param >= 0 && i <= in.last && !found; i++)
      found = reads(&backward->ops[i], backward->params[param]);
    if (!found) return false;
  }
  return true;
}

static void remove_restored(bd_function *forward, bd_function *backward, int param) {
  size_t saves = (size_t)(forward->save_count - param - 1);
  size_t params = (size_t)(backward->param_count - param - 1);
  memmove(&forward->saves[param], &forward->saves[param + 1], saves * sizeof *forward->saves);
  memmove(&backward->params[param], &backward->params[param + 1],
          params * sizeof *backward->params);
  memmove(&backward->is_weight[param], &backward->is_weight[param + 1],
          params * sizeof *backward->is_weight);
  forward->save_count--;
  backward->restore_count--;
  backward->param_count--;
}

// Before its first reader, of whose group it is: what one op of backward makes for another of its
// group lies as these are split.
static void make_again(bd_ctx *ctx, bd_function *forward, bd_function *backward, int param) {
  const bd_op *op = &forward->ops[forward->values[forward->saves[param]].producer];
  bd_id value = backward->params[param], in[BD_MAX_OPERANDS];
  int reader = 0;
  for (int k = 0; k < op->in_count; k++)
    in[k] = backward->params[restored(forward, op->in[k])];
  while (!reads(&backward->ops[reader], value))
    reader++;
  bd_op *copy = bd_function_add_op(ctx, backward, op->kind, op->in_count, in, 1, &value, op->loc);
  copy->attr_count = op->attr_count;
  copy->attrs = op->attrs;
  copy->group = backward->ops[reader].group;
  remove_restored(forward, backward, param);
  bd_function_move_last_op(backward, reader);
}

static bool may_be_made(const bd_function *forward, const bd_function *backward, int param) {
  int producer = forward->values[forward->saves[param]].producer;
  row in;
  if (producer < 0 || !is_pointwise(&forward->ops[producer]) ||
      (bd_op_get_info(forward->ops[producer].kind)->traits & BD_RANDOM) ||
      bd_ids_find(forward->results, forward->result_count, forward->saves[param]) >= 0)
    return false;
  return find_row(backward, backward->params[param], &in) &&
         bd_fuse_types(&backward->values[backward->params[param]].type,
                       &backward->values[backward->ops[in.first].out[0]].type) &&
         has_operands(forward, backward, &forward->ops[producer], in);
}

// What is made of others comes first: the row reads them then.
static void rematerialize(bd_ctx *ctx, bd_function *forward, bd_function *backward) {
  for (int op = forward->op_count - 1; op >= 0; op--)
    for (int param = backward->restore_count - 1; param >= 0; param--)
      if (forward->values[forward->saves[param]].producer == op &&
          may_be_made(forward, backward, param))
        make_again(ctx, forward, backward, param);
}

bd_status bd_pass_rematerialize(bd_ctx *ctx, const bd_module *in, bd_module **out_module) {
  bd_module *out = bd_module_clone(ctx, in);
  for (int i = 0; i < out->function_count; i++) {
    bd_function *f = out->functions[i];
    if (f->role != BD_ROLE_BACKWARD) continue;
    rematerialize(ctx, bd_module_find(out, f->peer), f);
  }
  *out_module = out;
  return BD_OK;
}
