// Matrix products, reductions, softmax, layer norm and losses: rules of letters over factored
// shapes.
#include "frontend/onnx/lower/layout.h"
#include <string.h>

static bd_status fail_layout(const bd_onnx_step *step) {
  return bd_onnx_step_fail(step, BD_UNSUPPORTED,
                           "multiplies dimensions of different structure along the batch");
}

// One tensor of a contraction: a letter per dimension of the graph.
typedef struct letters {
  char text[BD_MAX_RANK + 1];
  int count;
} letters;

static void add_letters(letters *to, int count, char first) {
  for (int i = 0; i < count && to->count < BD_MAX_RANK; i++)
    to->text[to->count++] = (char)(first + i);
}

// A matrix product of two operands: the stacked dimensions come first, then rows, then columns.
typedef struct product {
  int a_rank, b_rank;   // of the model
  int rows, a_inner;    // a's dimensions, -1: none
  int b_inner, columns; // b's
  int stack;            // dimensions of the result before rows
} product;

// Brings dimension `da` of a and `db` of b to equal factors.
static bd_status meet(bd_onnx_lowering *l, const bd_onnx_step *step, const product *p, int da,
                      int db, bd_onnx_part *a, bd_onnx_part *b) {
  bd_onnx_factors fa[BD_MAX_RANK], fb[BD_MAX_RANK], both;
  for (int d = 0; d < p->a_rank; d++)
    fa[d] = bd_onnx_factors_of(l, a, d);
  for (int d = 0; d < p->b_rank; d++)
    fb[d] = bd_onnx_factors_of(l, b, d);
  if (fa[da].count == 0 || fb[db].count == 0) return BD_OK;
  if (!bd_onnx_factors_meet(&fa[da], &fb[db], &both)) return fail_layout(step);
  fa[da] = fb[db] = both;
  BD_TRY(bd_onnx_refit(l, step, p->a_rank, fa, a));
  return bd_onnx_refit(l, step, p->b_rank, fb, b);
}

static int width(const bd_onnx_part *part, int d) {
  return d < 0 ? 0 : part->first[d + 1] - part->first[d];
}

// Emits the contraction of operands that meet. `out` gets the layout of the result.
static bd_status contract(bd_onnx_lowering *l, const product *p, const bd_onnx_part *a,
                          const bd_onnx_part *b, bd_onnx_part *out) {
  letters of_a = {{0}, 0}, of_b = {{0}, 0}, of_out = {{0}, 0};
  char next = 'a', first_a[BD_MAX_RANK] = {0}, first_b[BD_MAX_RANK] = {0};
  int rank = 0;
  for (int d = 0; d < p->stack; d++) {
    int da = d - (p->stack - (p->a_rank - 1 - (p->rows >= 0)));
    int db = d - (p->stack - (p->b_rank - 1 - (p->columns >= 0)));
    int wide_a = da < 0 ? 0 : width(a, da), wide_b = db < 0 ? 0 : width(b, db);
    int wide = wide_a > wide_b ? wide_a : wide_b;
    if (wide_a) first_a[da] = next;
    if (wide_b) first_b[db] = next;
    out->first[rank++] = (int8_t)of_out.count;
    add_letters(&of_out, wide, next);
    next = (char)(next + wide);
  }
  first_a[p->a_inner] = first_b[p->b_inner] = next;
  next = (char)(next + width(a, p->a_inner));
  for (int side = 0; side < 2; side++) {
    int d = side == 0 ? p->rows : p->columns;
    if (d < 0) continue;
    (side == 0 ? first_a : first_b)[d] = next;
    int wide = width(side == 0 ? a : b, d);
    out->first[rank++] = (int8_t)of_out.count;
    add_letters(&of_out, wide, next);
    next = (char)(next + wide);
  }
  out->first[rank] = (int8_t)of_out.count;
  for (int d = 0; d < p->a_rank; d++)
    add_letters(&of_a, width(a, d), first_a[d]);
  for (int d = 0; d < p->b_rank; d++)
    add_letters(&of_b, width(b, d), first_b[d]);
  const char *rule = bd_intern_f(l->ctx, "%s,%s->%s", of_a.text, of_b.text, of_out.text);
  return bd_onnx_emit_rule(l, BD_OP_CONTRACT, 2, (bd_id[]){a->id, b->id}, rule, &out->id);
}

static bd_status multiply(bd_onnx_lowering *l, const bd_onnx_step *step, const product *p,
                          bd_onnx_part *out) {
  bd_onnx_part a, b;
  BD_TRY(bd_onnx_operand(l, step, 0, &a));
  BD_TRY(bd_onnx_operand(l, step, 1, &b));
  BD_TRY(meet(l, step, p, p->a_inner, p->b_inner, &a, &b));
  int stack_a = p->a_rank - 1 - (p->rows >= 0), stack_b = p->b_rank - 1 - (p->columns >= 0);
  for (int d = 1; d <= stack_a && d <= stack_b; d++)
    BD_TRY(meet(l, step, p, stack_a - d, stack_b - d, &a, &b));
  return contract(l, p, &a, &b, out);
}

static bd_status lower_matmul(bd_onnx_lowering *l, const bd_onnx_step *step) {
  int a = step->in[0]->rank, b = step->in[1]->rank;
  product p = {.a_rank = a, .b_rank = b, .rows = a - 2, .a_inner = a - 1};
  p.b_inner = b == 1 ? 0 : b - 2;
  p.columns = b == 1 ? -1 : b - 1;
  p.stack = (a > b ? a : b) - 2;
  if (p.stack < 0) p.stack = 0;
  if (a == 1) p.rows = -1;
  bd_onnx_part out;
  BD_TRY(multiply(l, step, &p, &out));
  bd_onnx_made(l, step, 0, out);
  return BD_OK;
}

static bd_status lower_gemm(bd_onnx_lowering *l, const bd_onnx_step *step) {
  int turn_a = bd_onnx_int(step, "transA", 0) != 0, turn_b = bd_onnx_int(step, "transB", 0) != 0;
  double alpha = bd_onnx_real(step, "alpha", 1), beta = bd_onnx_real(step, "beta", 1);
  const product p = {2, 2, turn_a, !turn_a, turn_b, !turn_b, 0};
  bd_onnx_part parts[2], out;
  BD_TRY(multiply(l, step, &p, &parts[0]));
  if (alpha != 1) BD_TRY(bd_onnx_emit_real(l, BD_OP_SCALE, parts[0].id, alpha, &parts[0].id));
  out = parts[0];
  if (step->in[2] && beta != 0) {
    int ranks[] = {2, step->in[2]->rank};
    BD_TRY(bd_onnx_operand(l, step, 2, &parts[1]));
    if (beta != 1) BD_TRY(bd_onnx_emit_real(l, BD_OP_SCALE, parts[1].id, beta, &parts[1].id));
    BD_TRY(bd_onnx_align(l, step, 2, ranks, parts, 2, &out));
    BD_TRY(bd_onnx_emit2(l, BD_OP_ADD, parts[0].id, parts[1].id, &out.id));
  }
  bd_onnx_made(l, step, 0, out);
  return BD_OK;
}

bd_status bd_onnx_reduce(bd_onnx_lowering *l, bd_op_kind kind, int rank, unsigned axes,
                         bd_onnx_part *part) {
  letters all = {{0}, 0}, kept = {{0}, 0};
  bd_onnx_part out = *part;
  for (int d = 0; d < rank; d++) {
    int wide = width(part, d);
    char first = (char)('A' + all.count);
    out.first[d] = (int8_t)kept.count;
    add_letters(&all, wide, first);
    if (!(axes >> d & 1)) add_letters(&kept, wide, first);
  }
  out.first[rank] = (int8_t)kept.count;
  if (kept.count < all.count) {
    const char *rule = bd_intern_f(l->ctx, "%s->%s", all.text, kept.text);
    BD_TRY(bd_onnx_emit_rule(l, kind, 1, &part->id, rule, &out.id));
  }
  *part = out;
  return BD_OK;
}

static bd_status lower_reduce(bd_onnx_lowering *l, const bd_onnx_step *step) {
  const bd_onnx_fact *in = step->in[0];
  int count = 0;
  unsigned axes = 0;
  bd_onnx_part part;
  bd_onnx_number size = bd_onnx_whole(1);
  BD_TRY(bd_onnx_axes(step, 1, in->rank, &count, &axes));
  BD_TRY(bd_onnx_operand(l, step, 0, &part));
  if (count == 0 && !bd_onnx_int(step, "noop_with_empty_axes", 0)) axes = (1U << in->rank) - 1;
  bd_op_kind kind = bd_onnx_lower_kind(step);
  const char *op = step->node->op;
  if (strcmp(op, "ReduceSumSquare") == 0 || strcmp(op, "ReduceL2") == 0)
    BD_TRY(bd_onnx_emit2(l, BD_OP_MUL, part.id, part.id, &part.id));
  if (strcmp(op, "ReduceL1") == 0) BD_TRY(bd_onnx_emit1(l, BD_OP_ABS, part.id, &part.id));
  BD_TRY(bd_onnx_reduce(l, kind, in->rank, axes, &part));
  for (int d = 0; d < in->rank; d++)
    if ((axes >> d & 1) && !bd_onnx_multiply(size, in->dims[d], &size))
      return bd_onnx_step_fail(step, BD_UNSUPPORTED, "reduces more than 2^46 elements");
  if (strcmp(op, "ReduceMean") == 0) {
    if (size.batch || size.integer < 1)
      return bd_onnx_step_fail(step, BD_UNSUPPORTED, "takes a mean over the batch");
    BD_TRY(bd_onnx_emit_real(l, BD_OP_SCALE, part.id, 1.0 / (double)size.integer, &part.id));
  }
  if (strcmp(op, "ReduceL2") == 0) BD_TRY(bd_onnx_emit1(l, BD_OP_SQRT, part.id, &part.id));
  if (strcmp(op, "ReduceLogSum") == 0) BD_TRY(bd_onnx_emit1(l, BD_OP_LOG, part.id, &part.id));
  // Without keepdims the dimensions of extent 1 are left out; the graph has none of them anyway.
  BD_TRY(bd_onnx_regroup(l, step, step->out[0].rank, step->out[0].dims, &part));
  bd_onnx_made(l, step, 0, part);
  return BD_OK;
}

// The dimensions of a softmax: one since version 13, all from the axis on before.
static bd_status softmax_axes(const bd_onnx_step *step, unsigned *out) {
  int rank = step->in[0]->rank, axis;
  bool old = step->rule->since < 13;
  int64_t given = bd_onnx_int(step, "axis", old ? 1 : -1);
  if (old && given == rank) {
    *out = 0;
    return BD_OK;
  }
  BD_TRY(bd_onnx_axis(step, given, rank, &axis));
  *out = old ? ((1U << rank) - 1) & ~((1U << axis) - 1) : 1U << axis;
  return BD_OK;
}

// x less its greatest element, along `axes`, and the sum of the powers of e of that, spread over x.
static bd_status centre(bd_onnx_lowering *l, const bd_onnx_step *step, unsigned axes,
                        bd_onnx_part *x, bd_id *out_powers, bd_onnx_part *out_sum) {
  const bd_onnx_fact *in = step->in[0];
  bd_onnx_part greatest = *x;
  BD_TRY(bd_onnx_reduce(l, BD_OP_REDUCE_MAX, in->rank, axes, &greatest));
  bd_onnx_part pair[] = {*x, greatest};
  int ranks[] = {in->rank, in->rank};
  BD_TRY(bd_onnx_align(l, step, 2, ranks, pair, in->rank, x));
  BD_TRY(bd_onnx_emit2(l, BD_OP_SUB, pair[0].id, pair[1].id, &x->id));
  BD_TRY(bd_onnx_emit1(l, BD_OP_EXP, x->id, out_powers));
  *out_sum = *x;
  out_sum->id = *out_powers;
  return bd_onnx_reduce(l, BD_OP_REDUCE_SUM, in->rank, axes, out_sum);
}

// The logarithm of the sum of the powers of e, safe from overflow: greatest + log(sum(exp(x -
// greatest))).
static bd_status lower_log_sum_exp(bd_onnx_lowering *l, const bd_onnx_step *step) {
  const bd_onnx_fact *in = step->in[0];
  int count = 0;
  unsigned axes = 0;
  bd_onnx_part x, greatest, sum;
  bd_id powers;
  BD_TRY(bd_onnx_axes(step, 1, in->rank, &count, &axes));
  if (count == 0 && !bd_onnx_int(step, "noop_with_empty_axes", 0)) axes = (1U << in->rank) - 1;
  BD_TRY(bd_onnx_operand(l, step, 0, &x));
  greatest = x;
  BD_TRY(bd_onnx_reduce(l, BD_OP_REDUCE_MAX, in->rank, axes, &greatest));
  BD_TRY(centre(l, step, axes, &x, &powers, &sum));
  BD_TRY(bd_onnx_emit1(l, BD_OP_LOG, sum.id, &sum.id));
  BD_TRY(bd_onnx_emit2(l, BD_OP_ADD, greatest.id, sum.id, &sum.id));
  BD_TRY(bd_onnx_regroup(l, step, step->out[0].rank, step->out[0].dims, &sum));
  bd_onnx_made(l, step, 0, sum);
  return BD_OK;
}

static bd_status lower_softmax(bd_onnx_lowering *l, const bd_onnx_step *step) {
  bool logs = strcmp(step->node->op, "LogSoftmax") == 0;
  unsigned axes;
  int rank = step->in[0]->rank, ranks[] = {rank, rank};
  bd_onnx_part x, sum, out;
  bd_id powers;
  BD_TRY(softmax_axes(step, &axes));
  BD_TRY(bd_onnx_operand(l, step, 0, &x));
  BD_TRY(centre(l, step, axes, &x, &powers, &sum));
  if (logs)
    BD_TRY(bd_onnx_emit1(l, BD_OP_LOG, sum.id, &sum.id));
  else
    x.id = powers;
  bd_onnx_part pair[] = {x, sum};
  BD_TRY(bd_onnx_align(l, step, 2, ranks, pair, rank, &out));
  BD_TRY(bd_onnx_emit2(l, logs ? BD_OP_SUB : BD_OP_DIV, pair[0].id, pair[1].id, &out.id));
  bd_onnx_made(l, step, 0, out);
  return BD_OK;
}

// The scale or bias of a layer norm as one list over the normalized elements.
static bd_status norm_operand(bd_onnx_lowering *l, const bd_onnx_step *step, int i, int64_t size,
                              bd_id *out) {
  bd_onnx_part part;
  bd_dtype dtype = BD_F32;
  (void)bd_onnx_element_type(step->in[0]->dtype, &dtype);
  if (i >= step->in_count || !step->in[i]) {
    bd_attr attrs[] = {bd_attr_string(l->ctx, "dtype", bd_dtype_name(dtype)),
                       bd_attr_ints(l->ctx, "dims", 1, &size),
                       bd_attr_real(l->ctx, "value", i == 1 ? 1 : 0)};
    return bd_onnx_emit(l, BD_OP_CONSTANT, 0, NULL, 3, attrs, out);
  }
  BD_TRY(bd_onnx_operand(l, step, i, &part));
  bd_onnx_number count;
  if (!bd_onnx_product(step->in[i]->dims, step->in[i]->rank, &count) || !bd_onnx_is(count, size))
    return bd_onnx_step_fail(step, BD_UNSUPPORTED,
                             "has a scale or bias that is not of the normalized dimensions");
  return bd_onnx_emit_reshape(l, part.id, 1, &size, out);
}

static bd_status lower_layer_norm(bd_onnx_lowering *l, const bd_onnx_step *step) {
  const bd_onnx_fact *in = step->in[0];
  int axis;
  bd_onnx_part x, flat;
  bd_onnx_number dims[BD_MAX_RANK], size;
  bd_id operands[3];
  BD_TRY(bd_onnx_axis(step, bd_onnx_int(step, "axis", -1), in->rank, &axis));
  if (!bd_onnx_product(in->dims + axis, in->rank - axis, &size) || size.batch || size.integer < 2)
    return bd_onnx_step_fail(step, BD_UNSUPPORTED, "normalizes the batch, or one element");
  for (int d = 0; d < axis; d++)
    dims[d] = in->dims[d];
  dims[axis] = size;
  BD_TRY(bd_onnx_operand(l, step, 0, &x));
  BD_TRY(bd_onnx_regroup(l, step, axis + 1, dims, &x));
  flat = x;
  BD_TRY(bd_onnx_join(l, step, axis + 1, 1U << axis, &flat));
  operands[0] = flat.id;
  for (int i = 1; i < 3; i++)
    BD_TRY(norm_operand(l, step, i, size.integer, &operands[i]));
  bd_attr eps = bd_attr_real(l->ctx, "eps", bd_onnx_real(step, "epsilon", 1e-5));
  BD_TRY(bd_onnx_emit(l, BD_OP_LAYERNORM, 3, operands, 1, &eps, &flat.id));
  BD_TRY(bd_onnx_regroup(l, step, in->rank, in->dims, &flat));
  bd_onnx_made(l, step, 0, flat);
  return BD_OK;
}

static const bd_onnx_lower_rule rules[] = {
    {"Gemm", lower_gemm, BD_OP_CONTRACT},
    {"LayerNormalization", lower_layer_norm, BD_OP_LAYERNORM},
    {"LogSoftmax", lower_softmax, BD_OP_SUB},
    {"MatMul", lower_matmul, BD_OP_CONTRACT},
    {"ReduceL1", lower_reduce, BD_OP_REDUCE_SUM},
    {"ReduceL2", lower_reduce, BD_OP_REDUCE_SUM},
    {"ReduceLogSum", lower_reduce, BD_OP_REDUCE_SUM},
    {"ReduceLogSumExp", lower_log_sum_exp, BD_OP_LOG},
    {"ReduceMax", lower_reduce, BD_OP_REDUCE_MAX},
    {"ReduceMean", lower_reduce, BD_OP_REDUCE_SUM},
    {"ReduceMin", lower_reduce, BD_OP_REDUCE_MIN},
    {"ReduceProd", lower_reduce, BD_OP_REDUCE_PROD},
    {"ReduceSum", lower_reduce, BD_OP_REDUCE_SUM},
    {"ReduceSumSquare", lower_reduce, BD_OP_REDUCE_SUM},
    {"Softmax", lower_softmax, BD_OP_DIV},
};
const bd_onnx_lower_rules bd_onnx_lower_products = {sizeof rules / sizeof *rules, rules};
