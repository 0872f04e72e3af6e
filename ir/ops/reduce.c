// reduce_max, reduce_min and reduce_prod, by rules of letters, and reduce_sum of integers.
#include "ir/ops/reduce.h"
#include <assert.h>
#include <math.h>
#include <string.h>

// The element of the result that each element of the operand goes to.
static int64_t target_of(const char *rule, const bd_type *in, const bd_type *out, int64_t element) {
  const char *kept = strstr(rule, "->") + 2;
  int64_t stride[BD_MAX_RANK], step = 1, target = 0;
  for (int d = out->rank - 1; d >= 0; d--) {
    stride[d] = step;
    step *= out->dims[d];
  }
  for (int d = in->rank - 1; d >= 0; d--) {
    const char *place = memchr(kept, rule[d], (size_t)out->rank);
    if (place) target += element % in->dims[d] * stride[place - kept];
    element /= in->dims[d];
  }
  return target;
}

static double join_whole(bd_op_kind kind, bd_dtype dtype, double a, double b) {
  uint64_t x = bd_whole_bits(a), y = bd_whole_bits(b);
  return bd_whole_of(dtype, kind == BD_OP_REDUCE_PROD ? x * y : x + y);
}

static double join(bd_op_kind kind, bd_dtype dtype, double a, double x) {
  switch (kind) {
  case BD_OP_REDUCE_MAX:
    return x > a || isnan(x) ? x : a;
  case BD_OP_REDUCE_MIN:
    return x < a || isnan(x) ? x : a;
  case BD_OP_REDUCE_PROD:
    return bd_dtype_is_float(dtype) ? a * x : join_whole(kind, dtype, a, x);
  default:
    assert(kind == BD_OP_REDUCE_SUM);
    return join_whole(kind, dtype, a, x);
  }
}

void bd_eval_reduce(const bd_op *op, const bd_tensor *in, bd_tensor *out, bd_arena *scratch) {
  bool *seen = BD_NEW_ARRAY(scratch, bool, bd_tensor_elements(out));
  const char *rule = bd_op_string(op, "rule");
  int64_t count = bd_tensor_elements(in);
  for (int64_t i = 0; i < count; i++) {
    int64_t at = target_of(rule, &in->type, &out->type, i);
    double x = in->data[i];
    out->data[at] = seen[at] ? join(op->kind, out->type.dtype, out->data[at], x) : x;
    seen[at] = true;
  }
}

BD_EVAL(reduce_max) {
  (void)key;
  bd_eval_reduce(op, in, out, scratch);
}
BD_EVAL(reduce_min) {
  (void)key;
  bd_eval_reduce(op, in, out, scratch);
}
BD_EVAL(reduce_prod) {
  (void)key;
  bd_eval_reduce(op, in, out, scratch);
}

// `value`, of the result's shape, repeated to the operand's.
static bd_status spread(bd_ctx *ctx, bd_gradient *g, bd_id value, bd_id *out) {
  const bd_type *type = bd_gradient_operand_type(g, 0);
  const bd_attr attrs[2] = {bd_gradient_reversed_rule(ctx, g->op),
                            bd_attr_ints(ctx, "dims", type->rank, type->dims)};
  return bd_build(ctx, g->backward, BD_OP_BROADCAST, 1, &value, 2, attrs, g->op->loc, out);
}

// The elements of `value` that go to one of the result, joined by `kind`.
static bd_status gather_up(bd_ctx *ctx, bd_gradient *g, bd_op_kind kind, bd_id value, bd_id *out) {
  bd_attr rule = bd_attr_string(ctx, "rule", bd_op_string(g->op, "rule"));
  return bd_build(ctx, g->backward, kind, 1, &value, 1, &rule, g->op->loc, out);
}

// Bools as numbers of the operand's type.
static bd_status as_numbers(bd_ctx *ctx, bd_gradient *g, bd_id bools, bd_id *out) {
  bd_attr to = bd_attr_string(ctx, "dtype", bd_dtype_name(bd_gradient_operand_type(g, 0)->dtype));
  return bd_build(ctx, g->backward, BD_OP_CAST, 1, &bools, 1, &to, g->op->loc, out);
}

// Elements that equal the extreme share its gradient.
static bd_status share(bd_ctx *ctx, bd_gradient *g) {
  bd_id extreme, hit, hits, count, part, parts;
  BD_TRY(spread(ctx, g, bd_gradient_result(g, 0), &extreme));
  BD_TRY(bd_gradient_binary(ctx, g, BD_OP_EQ, bd_gradient_operand(g, 0), extreme, &hit));
  BD_TRY(as_numbers(ctx, g, hit, &hits));
  BD_TRY(gather_up(ctx, g, BD_OP_REDUCE_SUM, hits, &count));
  BD_TRY(bd_gradient_binary(ctx, g, BD_OP_DIV, g->dout[0], count, &part));
  BD_TRY(spread(ctx, g, part, &parts));
  return bd_gradient_where(ctx, g, hit, parts, false, &g->din[0]);
}

BD_GRADIENT(reduce_max) {
  return share(ctx, g);
}
BD_GRADIENT(reduce_min) {
  return share(ctx, g);
}

// The product of the others: y / x, where no element is 0; the product of all but the zeros at the
// only 0; else 0.
BD_GRADIENT(reduce_prod) {
  const bd_type *type = bd_gradient_operand_type(g, 0);
  bd_id x = bd_gradient_operand(g, 0), zero, one, hit, hits, count, counts, held, product, products;
  bd_id single, quotient, there, other, any;
  BD_TRY(bd_gradient_fill(ctx, g, type, 0, &zero));
  BD_TRY(bd_gradient_fill(ctx, g, type, 1, &one));
  BD_TRY(bd_gradient_binary(ctx, g, BD_OP_EQ, x, zero, &hit));
  const bd_id chosen[3] = {hit, one, x};
  BD_TRY(bd_build(ctx, g->backward, BD_OP_SELECT, 3, chosen, 0, NULL, g->op->loc, &held));
  BD_TRY(gather_up(ctx, g, BD_OP_REDUCE_PROD, held, &product));
  BD_TRY(bd_gradient_binary(ctx, g, BD_OP_MUL, g->dout[0], product, &product));
  BD_TRY(spread(ctx, g, product, &products));
  BD_TRY(as_numbers(ctx, g, hit, &hits));
  BD_TRY(gather_up(ctx, g, BD_OP_REDUCE_SUM, hits, &count));
  BD_TRY(spread(ctx, g, count, &counts));
  BD_TRY(bd_gradient_binary(ctx, g, BD_OP_EQ, counts, one, &single));
  BD_TRY(bd_gradient_binary(ctx, g, BD_OP_EQ, counts, zero, &any));
  BD_TRY(bd_gradient_binary(ctx, g, BD_OP_AND, single, hit, &there));
  BD_TRY(bd_gradient_binary(ctx, g, BD_OP_OR, any, there, &other));
  BD_TRY(bd_gradient_binary(ctx, g, BD_OP_DIV, products, held, &quotient));
  return bd_gradient_where(ctx, g, other, quotient, false, &g->din[0]);
}
