#include "ir/pass.h"
#include "ir/passes/rewrite.h"
#include <math.h>
#include <string.h>

// "abc->abc"
static bool keeps_letters(const char *rule) {
  const char *arrow = rule ? strstr(rule, "->") : NULL;
  if (!arrow || strchr(rule, '|')) return false;
  size_t length = (size_t)(arrow - rule);
  return strlen(arrow + 2) == length && memcmp(rule, arrow + 2, length) == 0;
}

// Whether the op's one result is its one operand.
static bool is_identity(const bd_function *function, const bd_op *op) {
  if (op->in_count != 1 || op->out_count != 1) return false;
  const bd_type *in = &function->values[op->in[0]].type;
  if (!bd_type_equal(in, &function->values[op->out[0]].type)) return false;
  switch (op->kind) {
  case BD_OP_SCALE:
    return bd_op_real(op, "value", 0) == 1;
  case BD_OP_OFFSET:
    return bd_op_real(op, "value", 1) == 0;
  case BD_OP_DROPOUT:
    return bd_op_real(op, "p", 1) == 0;
  case BD_OP_REDUCE_SUM:
  case BD_OP_BROADCAST:
  case BD_OP_PERMUTE:
    return keeps_letters(bd_op_string(op, "rule"));
  case BD_OP_SLICE:
  case BD_OP_PAD:
    return bd_op_int(op, "step", 1) == 1;
  default:
    return op->kind == BD_OP_CAST || op->kind == BD_OP_RESHAPE || op->kind == BD_OP_CONCAT;
  }
}

// The op that makes operand 0, when it is of the same kind; else NULL.
static const bd_op *find_nested(const bd_function *function, const bd_op *op) {
  int producer = op->in_count > 0 ? function->values[op->in[0]].producer : -1;
  const bd_op *inner = producer >= 0 ? &function->ops[producer] : NULL;
  return inner && inner->kind == op->kind ? inner : NULL;
}

// scale(scale(x)) takes both factors at once, offset(offset(x)) both terms.
static void merge_nested(bd_ctx *ctx, const bd_function *function, bd_op *op) {
  const bd_op *inner = find_nested(function, op);
  if (!inner) return;
  double a = bd_op_real(inner, "value", NAN), b = bd_op_real(op, "value", NAN);
  double value = op->kind == BD_OP_SCALE ? a * b : a + b;
  if (!isfinite(value)) return;
  bd_op_set_attr(ctx, op, bd_attr_real(ctx, "value", value));
  op->in[0] = inner->in[0];
}

// A window that reaches back over all keys before the last query is none.
static void drop_whole_window(bd_ctx *ctx, const bd_function *function, bd_op *op) {
  int query = bd_op_is_attention_grad(op->kind) ? 1 : 0;
  int64_t queries = function->values[op->in[query]].type.dims[1];
  if (bd_op_int(op, "window", 0) >= queries) bd_op_drop_attr(ctx, op, "window");
}

static bd_function *simplify(bd_ctx *ctx, const bd_function *function) {
  bd_rewrite rewrite = bd_rewrite_begin(ctx, function);
  for (int i = 0; i < rewrite.function->op_count; ++i) {
    bd_op *op = &rewrite.function->ops[i];
    for (int k = 0; k < op->in_count; ++k)
      op->in[k] = rewrite.stands[op->in[k]];
    if (op->kind == BD_OP_SCALE || op->kind == BD_OP_OFFSET)
      merge_nested(ctx, rewrite.function, op);
    if (bd_op_attends(op->kind)) drop_whole_window(ctx, rewrite.function, op);
    const bd_op *inner = op->kind == BD_OP_NEG ? find_nested(rewrite.function, op) : NULL;
    if (inner)
      bd_rewrite_replace(&rewrite, i, inner->in[0]);
    else if (is_identity(rewrite.function, op))
      bd_rewrite_replace(&rewrite, i, op->in[0]);
  }
  return bd_rewrite_end(ctx, &rewrite);
}

bd_status bd_pass_canonicalize(bd_ctx *ctx, const bd_module *in, bd_module **out_module) {
  bd_module *module = bd_module_clone(ctx, in);
  for (int i = 0; i < module->function_count; ++i)
    module->functions[i] = simplify(ctx, in->functions[i]);
  *out_module = module;
  return BD_OK;
}
