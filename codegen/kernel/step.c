// Which values a step reads from memory and writes to it.
#include "codegen/kernel/kernel.h"
#include "ir/columns.h"

enum {
  BD_ATTENTION_GRAD_PARTS = 3, // row products; dk and dv; dq; of biases one more
  BD_COLUMN_PARTS = 2,         // sums of chunks; their sums
  BD_LOSS_PARTS = 2            // rows; the sum of their losses
};

static bool listed(const bd_id *list, int count, bd_id id) {
  for (int i = 0; i < count; i++)
    if (list[i] == id) return true;
  return false;
}

static bool made_by(const bd_kernel *k, bd_id id) {
  int producer = k->function->values[id].producer;
  return (producer >= k->first_op && producer < k->first_op + k->op_count) ||
         (producer >= k->run_op && producer < k->run_op + k->run_count);
}

// The runtime has no products of f64 and of integers.
static bool is_generated(const bd_function *function, const bd_op *op, bool cuda) {
  if (op->kind == BD_OP_CONTRACT)
    return bd_dtype_wide(function->values[op->in[0]].type.dtype) != BD_F32;
  return !(bd_op_get_info(op->kind)->traits & BD_LIBRARY) || (cuda && bd_op_attends(op->kind));
}

// What a run that is taken along alone reads stays in registers.
static bool in_memory(const bd_kernel *k, const bd_fusion *fusion, bd_id id) {
  bool passes = k->run_op > k->first_op && !k->keeps && id == k->function->ops[k->first_op].out[0];
  return !fusion->inner[id] && !passes;
}

static void list_ops(bd_kernel *k, const bd_fusion *fusion, int first, int count) {
  for (const bd_op *op = &k->function->ops[first]; count > 0; op++, count--) {
    for (int i = 0; i < op->in_count; i++)
      if (!made_by(k, op->in[i]) && !listed(k->in, k->in_count, op->in[i]))
        k->in[k->in_count++] = op->in[i];
    for (int i = 0; i < op->out_count; i++) {
      if (!in_memory(k, fusion, op->out[i])) continue;
      k->accumulate[k->out_count] = bd_accumulates(k->function, op->out[i]);
      k->out[k->out_count++] = op->out[i];
    }
  }
}

static void list_values(bd_ctx *ctx, bd_kernel *k, const bd_fusion *fusion) {
  const bd_op *ops = k->function->ops;
  int in = 0, out = 0;
  for (int i = 0; i < k->op_count + k->run_count; i++) {
    const bd_op *op = i < k->op_count ? &ops[k->first_op + i] : &ops[k->run_op + i - k->op_count];
    in += op->in_count;
    out += op->out_count;
  }
  k->in_count = k->out_count = 0;
  k->in = BD_NEW_ARRAY(ctx->arena, bd_id, in);
  k->out = BD_NEW_ARRAY(ctx->arena, bd_id, out);
  k->accumulate = BD_NEW_ARRAY(ctx->arena, bool, out);
  if (k->run_op < k->first_op) list_ops(k, fusion, k->run_op, k->run_count);
  list_ops(k, fusion, k->first_op, k->op_count);
  if (k->run_op > k->first_op) list_ops(k, fusion, k->run_op, k->run_count);
}

bool bd_kernel_of_step(bd_ctx *ctx, const bd_module *module, const bd_function *function,
                       const bd_fusion *fusion, int step, bool cuda, int number,
                       bd_kernel *out_kernel) {
  bd_kernel k = {.number = number,
                 .module = module,
                 .function = function,
                 .first_op = fusion->first_op[step],
                 .op_count = fusion->step_ops[step],
                 .parts = 1};
  const bd_op *ops = &function->ops[k.first_op];
  if (!is_generated(function, &ops[0], cuda)) return false;
  if (bd_op_is_attention_grad(ops[0].kind)) {
    k.parts = BD_ATTENTION_GRAD_PARTS + (ops[0].kind == BD_OP_RELATIVE_ATTENTION_GRAD);
    k.scratch = true;
  }
  if (bd_column_chunks(module, function, &ops[0]) > 1) {
    k.parts = BD_COLUMN_PARTS;
    k.scratch = true;
  }
  list_values(ctx, &k, fusion);
  *out_kernel = k;
  return true;
}

void bd_kernel_add_run(bd_ctx *ctx, const bd_fusion *fusion, int run, bool keeps,
                       bd_kernel *kernel) {
  kernel->keeps = keeps;
  kernel->run_op = fusion->first_op[run];
  kernel->run_count = fusion->step_ops[run];
  list_values(ctx, kernel, fusion);
}

void bd_kernel_add_gradient(bd_ctx *ctx, bd_kernel *kernel) {
  const bd_op *op = &kernel->function->ops[kernel->first_op];
  const bd_id logits = op->in[0], targets = op->in[1], lse = op->in[2];
  kernel->parts = BD_LOSS_PARTS;
  kernel->with_gradient = true;
  kernel->in_count = 2;
  kernel->in[0] = logits;
  kernel->in[1] = targets;
  kernel->out_count = 3;
  kernel->out = BD_NEW_ARRAY(ctx->arena, bd_id, kernel->out_count);
  kernel->accumulate = BD_NEW_ARRAY(ctx->arena, bool, kernel->out_count);
  kernel->out[0] = op->out[0];
  kernel->out[1] = lse;
  kernel->out[2] = logits;
}
