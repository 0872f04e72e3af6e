// The pass `fp8`: products of bf16 in layers are computed in 8 bits. Forward factors are rounded to
// E4M3; in backward functions what comes of a gradient is rounded to E5M2, the rest to E4M3
// (Micikevicius et al., "FP8 Formats for Deep Learning", 2022, section 3). Functions that compute
// the loss stay as they are, and so do products of which each sample has its own.
#include "ir/float8.h"
#include "ir/pass.h"
#include <string.h>

static bool computes_loss(const bd_function *function) {
  for (int i = 0; i < function->op_count; i++)
    if (function->ops[i].kind == BD_OP_XENT || function->ops[i].kind == BD_OP_XENT_GRAD)
      return true;
  return false;
}

// Whether every sample has a product of its own, as of queries and keys: none with a weight.
static bool is_of_samples(const char *rule, const bd_type *a, const bd_type *b) {
  const char *second = rule + a->rank + 1, *result = second + b->rank + 2;
  for (int d = 0; d < a->rank; d++)
    if (a->dims[d] == BD_DIM_BATCH && memchr(second, rule[d], (size_t)b->rank) &&
        strchr(result, rule[d]))
      return true;
  return false;
}

static bool is_taken(const bd_function *function, const bd_op *op) {
  const bd_type *a = &function->values[op->in[0]].type, *b = &function->values[op->in[1]].type;
  if (op->kind == BD_OP_CONTRACT && is_of_samples(bd_op_string(op, "rule"), a, b)) return false;
  return a->dtype == BD_BF16 && bd_float8_takes(op, a, b);
}

static bd_float8 format_of(const bool *gradient, bd_id value) {
  return gradient[value] ? BD_E5M2 : BD_E4M3;
}

static bool mark(bd_ctx *ctx, const bd_function *function, bd_op *op, const bool *gradient) {
  const char *formats = bd_intern_f(ctx, "%s,%s", bd_float8_name(format_of(gradient, op->in[0])),
                                    bd_float8_name(format_of(gradient, op->in[1])));
  if (!is_taken(function, op) || (gradient[op->in[0]] && gradient[op->in[1]])) return false;
  bd_op_set_attr(ctx, op, bd_attr_string(ctx, "fp8", formats));
  return true;
}

// Whether there is any.
static bool mark_all(bd_ctx *ctx, bd_function *function) {
  bool marked = false;
  bool *gradient = BD_NEW_ARRAY(ctx->arena, bool, function->value_count);
  int first = function->role == BD_ROLE_BACKWARD ? function->restore_count : function->param_count;
  for (int i = first; i < function->param_count; i++)
    gradient[function->params[i]] = true;
  for (int i = 0; i < function->op_count; i++) {
    bd_op *op = &function->ops[i];
    bool any = false;
    for (int k = 0; k < op->in_count; k++)
      any |= gradient[op->in[k]];
    for (int k = 0; k < op->out_count; k++)
      gradient[op->out[k]] = any;
    if (bd_op_is_product(op->kind)) marked |= mark(ctx, function, op, gradient);
  }
  return marked;
}

bd_status bd_pass_fp8(bd_ctx *ctx, const bd_module *in, bd_module **out_module) {
  bd_module *out = bd_module_clone(ctx, in);
  bool marked = false;
  for (int i = 0; i < in->function_count; i++)
    if (!computes_loss(in->functions[i])) marked |= mark_all(ctx, out->functions[i]);
  if (!marked)
    return bd_fail(
        ctx, BD_UNSUPPORTED, in->main->loc,
        "no product of this model can be computed in fp8: outside of functions with the "
        "loss, none of bf16 with a weight has rows, columns and terms in multiples of %d",
        BD_FLOAT8_GRAIN);
  *out_module = out;
  return BD_OK;
}
