#include "ir/fuse.h"

static bool is_pointwise(const bd_op *op) {
  return (bd_op_get_info(op->kind)->traits & BD_POINTWISE) != 0;
}

bool bd_fuse_types(const bd_type *a, const bd_type *b) {
  bd_type like = *b;
  if (!bd_dtype_is_float(a->dtype) || !bd_dtype_is_float(b->dtype)) like.dtype = a->dtype;
  return bd_type_equal(a, &like);
}

bool bd_fuse_joins(const bd_function *function, int op) {
  if (op <= 0 || op >= function->op_count) return false;
  const bd_op *a = &function->ops[op - 1], *b = &function->ops[op];
  return is_pointwise(a) && is_pointwise(b) &&
         bd_fuse_types(&function->values[a->out[0]].type, &function->values[b->out[0]].type);
}

static bool lie_alike(const bd_function *function, const bd_op *a, const bd_op *b) {
  return bd_sharding_equal(&function->values[a->out[0]].sharding,
                           &function->values[b->out[0]].sharding);
}

static void mark_inner(bd_ctx *ctx, const bd_function *function, bd_fusion *fusion) {
  int *step_of = BD_NEW_ARRAY(ctx->arena, int, function->op_count);
  for (int step = 0; step < fusion->step_count; ++step)
    for (int i = 0; i < fusion->step_ops[step]; ++i)
      step_of[fusion->first_op[step] + i] = step;
  for (bd_id v = 0; v < function->value_count; ++v) {
    int producer = function->values[v].producer;
    fusion->inner[v] = producer >= 0 && is_pointwise(&function->ops[producer]);
  }
  for (int i = 0; i < function->op_count; ++i) {
    const bd_op *op = &function->ops[i];
    for (int k = 0; k < op->in_count; ++k) {
      int producer = function->values[op->in[k]].producer;
      if (producer >= 0 && step_of[producer] != step_of[i]) fusion->inner[op->in[k]] = false;
    }
  }
  for (int i = 0; i < function->result_count; ++i)
    fusion->inner[function->results[i]] = false;
  for (int i = 0; i < function->save_count; ++i)
    fusion->inner[function->saves[i]] = false;
}

void bd_fuse(bd_ctx *ctx, const bd_module *module, const bd_function *function,
             bd_fusion *out_fusion) {
  (void)module;
  *out_fusion = (bd_fusion){.first_op = BD_NEW_ARRAY(ctx->arena, int, function->op_count),
                            .step_ops = BD_NEW_ARRAY(ctx->arena, int, function->op_count),
                            .inner = BD_NEW_ARRAY(ctx->arena, bool, function->value_count)};
  for (int i = 0; i < function->op_count; ++i) {
    const bd_op *op = &function->ops[i];
    bool joins = bd_fuse_joins(function, i) && lie_alike(function, op - 1, op);
    if (!joins) out_fusion->first_op[out_fusion->step_count++] = i;
    out_fusion->step_ops[out_fusion->step_count - 1]++;
  }
  mark_inner(ctx, function, out_fusion);
}

bool bd_accumulates(const bd_function *function, bd_id value) {
  return function->role == BD_ROLE_BACKWARD &&
         function->values[value].segment == BD_SEGMENT_GRADIENTS;
}
