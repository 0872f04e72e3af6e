// Which values a step reads from memory and writes to it.
#include "codegen/kernel/kernel.h"

enum { BD_ATTENTION_GRAD_PARTS = 3 }; // row products; dk and dv; dq

static bool listed(const bd_id *list, int count, bd_id id) {
  for (int i = 0; i < count; i++)
    if (list[i] == id) return true;
  return false;
}

static bool made_by(const bd_kernel *k, bd_id id) {
  int producer = k->function->values[id].producer;
  return producer >= k->first_op && producer < k->first_op + k->op_count;
}

static bool is_attention(const bd_op *op) {
  return op->kind == BD_OP_ATTENTION || op->kind == BD_OP_ATTENTION_GRAD;
}

// The runtime has no products of f64 and of integers.
static bool is_generated(const bd_function *function, const bd_op *op, bool cuda) {
  if (op->kind == BD_OP_CONTRACT)
    return bd_dtype_wide(function->values[op->in[0]].type.dtype) != BD_F32;
  return !(bd_op_get_info(op->kind)->traits & BD_LIBRARY) || (cuda && is_attention(op));
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
  if (ops[0].kind == BD_OP_ATTENTION_GRAD) {
    k.parts = BD_ATTENTION_GRAD_PARTS;
    k.scratch = true;
    k.scratch_like = ops[0].in[5]; // the log-sum-exp: a number per row
  }
  int in = 0, out = 0;
  for (int i = 0; i < k.op_count; i++) {
    in += ops[i].in_count;
    out += ops[i].out_count;
  }
  k.in = BD_NEW_ARRAY(ctx->arena, bd_id, in);
  k.out = BD_NEW_ARRAY(ctx->arena, bd_id, out);
  k.accumulate = BD_NEW_ARRAY(ctx->arena, bool, out);
  for (int i = 0; i < k.op_count; i++) {
    for (int j = 0; j < ops[i].in_count; j++) {
      bd_id id = ops[i].in[j];
      if (!made_by(&k, id) && !listed(k.in, k.in_count, id)) k.in[k.in_count++] = id;
    }
    for (int j = 0; j < ops[i].out_count; j++) {
      bd_id id = ops[i].out[j];
      if (fusion->inner[id]) continue;
      k.accumulate[k.out_count] = bd_accumulates(function, id);
      k.out[k.out_count++] = id;
    }
  }
  *out_kernel = k;
  return true;
}
