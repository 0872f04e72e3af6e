// Ops whose loops are spelled out in their `rule` attribute: contract, reduce_sum, broadcast,
// permute. All are sums of products, and so are their gradients, by rules of the same letters.
#include "ir/float8.h"
#include "ir/ops/reduce.h"
#include <assert.h>
#include <string.h>

enum { MAX_TENSORS = 3 };

// Loops and, for each tensor, the elements that one step of the loop moves by.
typedef struct nest {
  int loops;
  char letter[BD_MAX_LOOPS];
  int64_t extent[BD_MAX_LOOPS];
  int64_t stride[MAX_TENSORS][BD_MAX_LOOPS];
} nest;

static int find_or_add_loop(nest *nest, char letter) {
  for (int i = 0; i < nest->loops; i++)
    if (nest->letter[i] == letter) return i;
  assert(nest->loops < BD_MAX_LOOPS);
  nest->letter[nest->loops] = letter;
  return nest->loops++;
}

static void add_tensor(nest *nest, int tensor, const char *letters, const bd_type *type) {
  int64_t stride = 1;
  for (int d = type->rank - 1; d >= 0; d--) {
    int loop = find_or_add_loop(nest, letters[d]);
    nest->extent[loop] = type->dims[d];
    nest->stride[tensor][loop] += stride;
    stride *= type->dims[d];
  }
}

// The innermost loop: y += a * b. A sum that all goes to one element stays in a register.
static void run_row(int64_t count, const double *a, int64_t a_stride, const double *b,
                    int64_t b_stride, double *y, int64_t y_stride) {
  if (y_stride == 0) {
    double sum = *y;
    for (int64_t i = 0; i < count; i++)
      sum += a[i * a_stride] * b[i * b_stride];
    *y = sum;
    return;
  }
  for (int64_t i = 0; i < count; i++)
    y[i * y_stride] += a[i * a_stride] * b[i * b_stride];
}

static void run(const nest *nest, int operands, const bd_tensor *in, bd_tensor *out) {
  static const double one = 1;
  const int64_t count = nest->loops ? nest->extent[0] : 1;
  const int64_t b_stride = operands == 2 ? nest->stride[1][0] : 0;
  int64_t index[BD_MAX_LOOPS] = {0}, at[MAX_TENSORS] = {0};
  for (;;) {
    run_row(count, in[0].data + at[0], nest->stride[0][0],
            operands == 2 ? in[1].data + at[1] : &one, b_stride, out->data + at[operands],
            nest->stride[operands][0]);
    int loop = 1;
    for (; loop < nest->loops; loop++) {
      for (int t = 0; t <= operands; t++)
        at[t] += nest->stride[t][loop];
      if (++index[loop] < nest->extent[loop]) break;
      for (int t = 0; t <= operands; t++)
        at[t] -= nest->stride[t][loop] * nest->extent[loop];
      index[loop] = 0;
    }
    if (loop >= nest->loops) return;
  }
}

void bd_eval_rule(const char *rule, int operands, const bd_tensor *in, bd_tensor *out) {
  nest nest = {0};
  const char *letters = rule;
  for (int i = 0; i < operands; i++) {
    add_tensor(&nest, i, letters, &in[i].type);
    letters += in[i].type.rank + (i + 1 < operands ? 1 : 2);
  }
  add_tensor(&nest, operands, letters, &out->type);
  run(&nest, operands, in, out);
}

#define RULE_EVAL(spelling, operands)                                                              \
  BD_EVAL(spelling) {                                                                              \
    (void)key, (void)scratch;                                                                      \
    bd_eval_rule(bd_op_string(op, "rule"), operands, in, out);                                     \
  }

// Factors are rounded to 8 bits where the attribute `fp8` says so, but not in products that have a
// dimension that is no multiple of the grain.
BD_EVAL(contract) {
  const char *rule = bd_op_string(op, "rule"), *formats = bd_op_string(op, "fp8");
  bd_tensor factor[2] = {in[0], in[1]};
  bd_float8 format[2];
  (void)key;
  if (formats && bd_float8_parse(formats, format) && bd_float8_fits(rule, &in[0].type, &in[1].type))
    for (int i = 0; i < 2; i++)
      factor[i] = bd_float8_round(scratch, format[i], &in[i]);
  bd_eval_rule(rule, 2, factor, out);
  if (bd_dtype_is_float(out->type.dtype)) return;
  for (int64_t i = 0; i < bd_tensor_elements(out); i++)
    out->data[i] = bd_dtype_wrap(out->type.dtype, out->data[i]);
}

BD_EVAL(reduce_sum) {
  (void)key;
  if (bd_dtype_is_float(out->type.dtype))
    bd_eval_rule(bd_op_string(op, "rule"), 1, in, out);
  else
    bd_eval_reduce(op, in, out, scratch);
}

RULE_EVAL(broadcast, 1)
RULE_EVAL(permute, 1)

bd_attr bd_gradient_reversed_rule(bd_ctx *ctx, const bd_op *op) {
  const char *rule = bd_op_string(op, "rule");
  const char *arrow = strstr(rule, "->");
  return bd_attr_string(ctx, "rule",
                        bd_intern_f(ctx, "%s->%.*s", arrow + 2, (int)(arrow - rule), rule));
}

BD_GRADIENT(reduce_sum) {
  const bd_type *type = bd_gradient_operand_type(g, 0);
  const bd_attr attrs[2] = {bd_gradient_reversed_rule(ctx, g->op),
                            bd_attr_ints(ctx, "dims", type->rank, type->dims)};
  bd_id dy;
  BD_TRY(bd_gradient_as_operand(ctx, g, 0, g->dout[0], &dy));
  return bd_build(ctx, g->backward, BD_OP_BROADCAST, 1, &dy, 2, attrs, g->op->loc, &g->din[0]);
}

BD_GRADIENT(broadcast) {
  bd_attr rule = bd_gradient_reversed_rule(ctx, g->op);
  return bd_build(ctx, g->backward, BD_OP_REDUCE_SUM, 1, &g->dout[0], 1, &rule, g->op->loc,
                  &g->din[0]);
}

BD_GRADIENT(permute) {
  bd_attr rule = bd_gradient_reversed_rule(ctx, g->op);
  return bd_build(ctx, g->backward, BD_OP_PERMUTE, 1, &g->dout[0], 1, &rule, g->op->loc,
                  &g->din[0]);
}

// For "a,b->y": da is "y,b->a" and db is "a,y->b". Summed letters stand in both operands, so each
// letter of a gradient is found in one of its factors.
BD_GRADIENT(contract) {
  const char *rule = bd_op_string(g->op, "rule");
  const char *comma = strchr(rule, ','), *arrow = strstr(rule, "->");
  int a_length = (int)(comma - rule), b_length = (int)(arrow - comma - 1);
  const char *b = comma + 1, *y = arrow + 2;
  bd_id dy;
  BD_TRY(bd_gradient_as_operand(ctx, g, 0, g->dout[0], &dy));
  if (g->need[0]) {
    const bd_id in[2] = {dy, bd_gradient_operand(g, 1)};
    bd_attr attr = bd_attr_string(
        ctx, "rule", bd_intern_f(ctx, "%s,%.*s->%.*s", y, b_length, b, a_length, rule));
    BD_TRY(bd_build(ctx, g->backward, BD_OP_CONTRACT, 2, in, 1, &attr, g->op->loc, &g->din[0]));
  }
  if (g->need[1]) {
    const bd_id in[2] = {bd_gradient_operand(g, 0), dy};
    bd_attr attr = bd_attr_string(
        ctx, "rule", bd_intern_f(ctx, "%.*s,%s->%.*s", a_length, rule, y, b_length, b));
    BD_TRY(bd_build(ctx, g->backward, BD_OP_CONTRACT, 2, in, 1, &attr, g->op->loc, &g->din[1]));
  }
  return BD_OK;
}
