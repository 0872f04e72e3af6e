// Pointwise ops that the graph has: operands are brought to one layout first.
#include "frontend/onnx/lower/layout.h"
#include <math.h>
#include <string.h>

enum { MOST_OPERANDS = 3 };

// Before version 7, the second operand stands at dimension `axis`: it has extents of 1 after it.
static bd_status stretch_from_axis(const bd_onnx_step *step, int *rank, bd_onnx_part *part) {
  int axis;
  BD_TRY(bd_onnx_axis(step, bd_onnx_int(step, "axis", 0), step->in[0]->rank, &axis));
  int wanted = step->in[0]->rank - axis;
  for (int d = *rank; d < wanted; d++)
    part->first[d + 1] = part->first[d];
  *rank = wanted;
  return BD_OK;
}

// All operands of the step, aligned for its result; `out` has the result's layout.
static bd_status take_aligned(bd_onnx_lowering *l, const bd_onnx_step *step, int count,
                              bd_onnx_part *parts, bd_onnx_part *out) {
  int ranks[MOST_OPERANDS];
  for (int i = 0; i < count; i++) {
    BD_TRY(bd_onnx_operand(l, step, i, &parts[i]));
    ranks[i] = step->in[i]->rank;
  }
  if (bd_onnx_find(step, "axis")) BD_TRY(stretch_from_axis(step, &ranks[1], &parts[1]));
  return bd_onnx_align(l, step, count, ranks, parts, step->out[0].rank, out);
}

static bd_status lower_unary(bd_onnx_lowering *l, const bd_onnx_step *step) {
  bd_onnx_part part;
  BD_TRY(bd_onnx_operand(l, step, 0, &part));
  BD_TRY(bd_onnx_emit1(l, bd_onnx_lower_kind(step), part.id, &part.id));
  bd_onnx_made(l, step, 0, part);
  return BD_OK;
}

static bool has_result_shape(const bd_onnx_step *step, int i) {
  const bd_onnx_fact *in = step->in[i], *out = &step->out[0];
  bool same = in->rank == out->rank;
  for (int d = 0; same && d < in->rank; d++)
    same = bd_onnx_same(in->dims[d], out->dims[d]);
  return same;
}

// x op c or c op x, for reals and one known number c: scale and offset. *done false: not of the
// kind.
static bd_status lower_by_number(bd_onnx_lowering *l, const bd_onnx_step *step, bd_op_kind kind,
                                 bool *done) {
  *done = false;
  if (!bd_onnx_is_float(step->out[0].dtype)) return BD_OK;
  for (int c = 1; c >= 0 && !*done; c--) {
    bool same = false, divides = kind == BD_OP_DIV;
    bd_onnx_number number;
    BD_TRY(bd_onnx_same_number(l, step, c, &same, &number));
    if (!same || !has_result_shape(step, 1 - c) || (divides && c == 0)) continue;
    double value = divides ? 1 / number.real : number.real;
    bool takes = kind == BD_OP_SUB;
    if (!isfinite(value) || fabs(value) > 1e300) continue;
    bd_onnx_part part;
    BD_TRY(bd_onnx_operand(l, step, 1 - c, &part));
    if (takes && c == 0) BD_TRY(bd_onnx_emit1(l, BD_OP_NEG, part.id, &part.id));
    bool scales = kind == BD_OP_MUL || divides;
    double by = takes && c == 1 ? -value : value;
    BD_TRY(bd_onnx_emit_real(l, scales ? BD_OP_SCALE : BD_OP_OFFSET, part.id, by, &part.id));
    bd_onnx_made(l, step, 0, part);
    *done = true;
  }
  return BD_OK;
}

// `first`: the operand that the op takes first.
static bd_status lower_pair(bd_onnx_lowering *l, const bd_onnx_step *step, int first) {
  bd_onnx_part parts[2], out;
  BD_TRY(take_aligned(l, step, 2, parts, &out));
  BD_TRY(bd_onnx_emit2(l, bd_onnx_lower_kind(step), parts[first].id, parts[1 - first].id, &out.id));
  bd_onnx_made(l, step, 0, out);
  return BD_OK;
}

static bd_status lower_binary(bd_onnx_lowering *l, const bd_onnx_step *step) {
  return lower_pair(l, step, 0);
}

static bd_status lower_arithmetic(bd_onnx_lowering *l, const bd_onnx_step *step) {
  bool done;
  BD_TRY(lower_by_number(l, step, bd_onnx_lower_kind(step), &done));
  return done ? BD_OK : lower_binary(l, step);
}

// a > b is b < a.
static bd_status lower_turned(bd_onnx_lowering *l, const bd_onnx_step *step) {
  return lower_pair(l, step, 1);
}

// Small whole exponents are products: their gradient holds for negative bases too.
static bd_status lower_pow(bd_onnx_lowering *l, const bd_onnx_step *step) {
  bool same = false, real = bd_onnx_is_float(step->in[1]->dtype);
  bd_onnx_number exponent;
  BD_TRY(bd_onnx_same_number(l, step, 1, &same, &exponent));
  double power = !same ? 0 : real ? exponent.real : (double)exponent.integer;
  if (has_result_shape(step, 0) && (power == 1 || power == 2 || power == 3)) {
    bd_onnx_part base, out;
    BD_TRY(bd_onnx_operand(l, step, 0, &base));
    out = base;
    for (int i = 1; i < (int)power; i++)
      BD_TRY(bd_onnx_emit2(l, BD_OP_MUL, out.id, base.id, &out.id));
    bd_onnx_made(l, step, 0, out);
    return BD_OK;
  }
  bd_onnx_part parts[2], out;
  BD_TRY(take_aligned(l, step, 2, parts, &out));
  bd_dtype dtype = bd_onnx_type(l, parts[0].id)->dtype;
  BD_TRY(bd_onnx_emit_cast(l, parts[1].id, dtype, &parts[1].id));
  BD_TRY(bd_onnx_emit2(l, BD_OP_POW, parts[0].id, parts[1].id, &out.id));
  bd_onnx_made(l, step, 0, out);
  return BD_OK;
}

static bd_status lower_mod(bd_onnx_lowering *l, const bd_onnx_step *step) {
  bd_onnx_part parts[2], out;
  bd_attr attr = bd_attr_int(l->ctx, "fmod", bd_onnx_int(step, "fmod", 0));
  BD_TRY(take_aligned(l, step, 2, parts, &out));
  bd_id in[] = {parts[0].id, parts[1].id};
  BD_TRY(bd_onnx_emit(l, BD_OP_MOD, 2, in, 1, &attr, &out.id));
  bd_onnx_made(l, step, 0, out);
  return BD_OK;
}

static bd_status lower_where(bd_onnx_lowering *l, const bd_onnx_step *step) {
  bd_onnx_part parts[3], out;
  BD_TRY(take_aligned(l, step, 3, parts, &out));
  bd_id in[] = {parts[0].id, parts[1].id, parts[2].id};
  BD_TRY(bd_onnx_emit(l, BD_OP_SELECT, 3, in, 0, NULL, &out.id));
  bd_onnx_made(l, step, 0, out);
  return BD_OK;
}

// Max, Min, Sum and Mean of any number of operands, two by two. The sum so far has its own layout.
static bd_status lower_chain(bd_onnx_lowering *l, const bd_onnx_step *step) {
  bd_onnx_part out;
  int rank = step->in[0]->rank;
  BD_TRY(bd_onnx_operand(l, step, 0, &out));
  for (int i = 1; i < step->in_count; i++) {
    bd_onnx_part parts[2] = {out};
    BD_TRY(bd_onnx_operand(l, step, i, &parts[1]));
    int ranks[] = {rank, step->in[i]->rank};
    rank = rank > ranks[1] ? rank : ranks[1];
    BD_TRY(bd_onnx_align(l, step, 2, ranks, parts, rank, &out));
    BD_TRY(bd_onnx_emit2(l, bd_onnx_lower_kind(step), parts[0].id, parts[1].id, &out.id));
  }
  if (strcmp(step->node->op, "Mean") == 0)
    BD_TRY(bd_onnx_emit_real(l, BD_OP_SCALE, out.id, 1.0 / step->in_count, &out.id));
  bd_onnx_made(l, step, 0, out);
  return BD_OK;
}

static bd_status lower_cast(bd_onnx_lowering *l, const bd_onnx_step *step) {
  bd_onnx_part part;
  bd_dtype dtype;
  BD_TRY(bd_onnx_operand(l, step, 0, &part));
  if (!bd_onnx_element_type(step->out[0].dtype, &dtype))
    return bd_onnx_step_fail(step, BD_UNSUPPORTED, "makes elements of %s",
                             bd_onnx_dtype_name(step->out[0].dtype));
  BD_TRY(bd_onnx_emit_cast(l, part.id, dtype, &part.id));
  bd_onnx_made(l, step, 0, part);
  return BD_OK;
}

// Bounds, where they are, as one number each.
static bd_status lower_clip(bd_onnx_lowering *l, const bd_onnx_step *step) {
  static const char *const names[] = {"", "min", "max"};
  bd_onnx_part part;
  BD_TRY(bd_onnx_operand(l, step, 0, &part));
  for (int i = 1; i <= 2; i++) {
    bd_onnx_part bound = {.id = BD_NO_ID};
    const bd_onnx_attribute *attribute = bd_onnx_find(step, names[i]);
    bd_dtype dtype = bd_onnx_type(l, part.id)->dtype;
    if (i < step->in_count && step->in[i])
      BD_TRY(bd_onnx_operand(l, step, i, &bound));
    else if (attribute)
      BD_TRY(bd_onnx_number_op(l, dtype, attribute->real, &bound.id));
    else
      continue;
    BD_TRY(bd_onnx_emit2(l, i == 1 ? BD_OP_MAX : BD_OP_MIN, part.id, bound.id, &part.id));
  }
  bd_onnx_made(l, step, 0, part);
  return BD_OK;
}

static const bd_onnx_lower_rule rules[] = {
    {"Abs", lower_unary, BD_OP_ABS},
    {"Add", lower_arithmetic, BD_OP_ADD},
    {"And", lower_binary, BD_OP_AND},
    {"Cast", lower_cast, BD_OP_CAST},
    {"CastLike", lower_cast, BD_OP_CAST},
    {"Ceil", lower_unary, BD_OP_CEIL},
    {"Clip", lower_clip, BD_OP_MAX},
    {"Cos", lower_unary, BD_OP_COS},
    {"Div", lower_arithmetic, BD_OP_DIV},
    {"Equal", lower_binary, BD_OP_EQ},
    {"Erf", lower_unary, BD_OP_ERF},
    {"Exp", lower_unary, BD_OP_EXP},
    {"Floor", lower_unary, BD_OP_FLOOR},
    {"Greater", lower_turned, BD_OP_LT},
    {"GreaterOrEqual", lower_turned, BD_OP_LE},
    {"Less", lower_binary, BD_OP_LT},
    {"LessOrEqual", lower_binary, BD_OP_LE},
    {"Log", lower_unary, BD_OP_LOG},
    {"Max", lower_chain, BD_OP_MAX},
    {"Mean", lower_chain, BD_OP_ADD},
    {"Min", lower_chain, BD_OP_MIN},
    {"Mod", lower_mod, BD_OP_MOD},
    {"Mul", lower_arithmetic, BD_OP_MUL},
    {"Neg", lower_unary, BD_OP_NEG},
    {"Not", lower_unary, BD_OP_NOT},
    {"Or", lower_binary, BD_OP_OR},
    {"Pow", lower_pow, BD_OP_POW},
    {"Relu", lower_unary, BD_OP_RELU},
    {"Round", lower_unary, BD_OP_ROUND},
    {"Sigmoid", lower_unary, BD_OP_SIGMOID},
    {"Sign", lower_unary, BD_OP_SIGN},
    {"Sin", lower_unary, BD_OP_SIN},
    {"Sqrt", lower_unary, BD_OP_SQRT},
    {"Sub", lower_arithmetic, BD_OP_SUB},
    {"Sum", lower_chain, BD_OP_ADD},
    {"Tanh", lower_unary, BD_OP_TANH},
    {"Where", lower_where, BD_OP_SELECT},
    {"Xor", lower_binary, BD_OP_XOR},
};
const bd_onnx_lower_rules bd_onnx_lower_pointwise = {sizeof rules / sizeof *rules, rules};
