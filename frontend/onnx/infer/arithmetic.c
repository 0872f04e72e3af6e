// Pointwise ops of two and more operands.
#include "frontend/onnx/infer/step.h"
#include <math.h>

#define SCALAR(name)                                                                               \
  static bool name(const bd_onnx_step *step, const bd_onnx_number *in, bd_onnx_number *out)

static bool is_real(const bd_onnx_step *step) {
  return bd_onnx_is_float(step->in[0]->dtype);
}

#define ARITHMETIC(name, operator, exact)                                                          \
  SCALAR(name) {                                                                                   \
    if (!is_real(step)) return exact(in[0], in[1], out);                                           \
    out->real = in[0].real operator in[1].real;                                                    \
    return true;                                                                                   \
  }
ARITHMETIC(fold_add, +, bd_onnx_add)
ARITHMETIC(fold_sub, -, bd_onnx_subtract)
ARITHMETIC(fold_mul, *, bd_onnx_multiply)
ARITHMETIC(fold_div, /, bd_onnx_divide)

// With fmod 0, integers take the sign of the divisor, as in Python; with 1, that of the dividend.
SCALAR(fold_mod) {
  if (is_real(step)) {
    out->real = fmod(in[0].real, in[1].real);
    return true;
  }
  if (!bd_onnx_remainder(in[0], in[1], out)) return false;
  bool turn = out->integer != 0 && (out->integer < 0) != (in[1].integer < 0);
  return turn && bd_onnx_int(step, "fmod", 0) == 0 ? bd_onnx_add(*out, in[1], out) : true;
}

SCALAR(fold_pow) {
  bool real = is_real(step), real_exponent = bd_onnx_is_float(step->in[1]->dtype);
  if (in[0].batch || in[1].batch) return false;
  double base = real ? in[0].real : (double)in[0].integer;
  double power = pow(base, real_exponent ? in[1].real : (double)in[1].integer);
  if (real)
    out->real = power;
  else
    *out = bd_onnx_whole((int64_t)fmax(fmin(power, 0x1p53), -0x1p53));
  return real || fabs(power) < 0x1p53;
}

// The order of two elements: -1, 0, 1; false where it depends on B, or one is not a number.
static bool order_of(const bd_onnx_step *step, const bd_onnx_number *in, int *out_sign) {
  if (!is_real(step)) return bd_onnx_compare(in[0], in[1], out_sign);
  *out_sign = (in[0].real > in[1].real) - (in[0].real < in[1].real);
  return !isnan(in[0].real) && !isnan(in[1].real);
}

#define COMPARE(name, condition)                                                                   \
  SCALAR(name) {                                                                                   \
    int sign = 0;                                                                                  \
    bool known = order_of(step, in, &sign);                                                        \
    *out = bd_onnx_whole(condition);                                                               \
    return known;                                                                                  \
  }
COMPARE(fold_equal, sign == 0)
COMPARE(fold_less, sign < 0)
COMPARE(fold_less_or_equal, sign <= 0)
COMPARE(fold_greater, sign > 0)
COMPARE(fold_greater_or_equal, sign >= 0)

#define LOGIC(name, operator)                                                                      \
  SCALAR(name) {                                                                                   \
    *out = bd_onnx_whole((in[0].integer != 0) operator(in[1].integer != 0));                       \
    return true;                                                                                   \
  }
LOGIC(fold_and, &&)
LOGIC(fold_or, ||)
LOGIC(fold_xor, !=)

// The greatest (sign 1) or least (-1) of all operands.
static bool fold_extreme(const bd_onnx_step *step, const bd_onnx_number *in, int wanted,
                         bd_onnx_number *out) {
  *out = in[0];
  for (int i = 1; i < step->in_count; i++) {
    int sign;
    if (!order_of(step, (bd_onnx_number[]){in[i], *out}, &sign)) return false;
    if (sign == wanted) *out = in[i];
  }
  return true;
}
SCALAR(fold_max) {
  return fold_extreme(step, in, 1, out);
}
SCALAR(fold_min) {
  return fold_extreme(step, in, -1, out);
}

// Before version 7, the second operand is stretched only where `broadcast` says so, and from
// dimension `axis` on.
static bd_status infer_aligned(bd_onnx_step *step) {
  const bd_onnx_fact *a = step->in[0], *b = step->in[1];
  bool stretched = bd_onnx_int(step, "broadcast", 0) != 0;
  int axis = a->rank - b->rank;
  bool good = axis >= 0 && (stretched || axis == 0);
  if (good && bd_onnx_find(step, "axis") && b->rank > 0)
    BD_TRY(bd_onnx_axis(step, bd_onnx_int(step, "axis", 0), a->rank, &axis));
  good = good && axis + b->rank <= a->rank;
  for (int d = 0; good && d < b->rank; d++)
    good = bd_onnx_same(a->dims[axis + d], b->dims[d]) || (stretched && bd_onnx_is(b->dims[d], 1));
  if (good) return bd_onnx_shape_of(step, 0, 0);
  return bd_onnx_step_fail(step, BD_INVALID, "its operands' shapes do not agree: %s and %s",
                           bd_onnx_dims_text(step->ctx, a->rank, a->dims),
                           bd_onnx_dims_text(step->ctx, b->rank, b->dims));
}

#define ALIGNED(op, since, signature)                                                              \
  { op, since, signature, "axis:i broadcast:i consumed_inputs:I", 0, infer_aligned, NULL }
#define EACH(op, since, signature, scalar)                                                         \
  { op, since, signature, "", 0, bd_onnx_infer_pointwise, scalar }

static const bd_onnx_rule rules[] = {
    ALIGNED("Add", 6, "nn=n"),
    EACH("Add", 7, "nn=n", fold_add),
    ALIGNED("And", 1, "bb=b"),
    EACH("And", 7, "bb=b", fold_and),
    ALIGNED("Div", 6, "nn=n"),
    EACH("Div", 7, "nn=n", fold_div),
    ALIGNED("Equal", 1, "tt=b"),
    EACH("Equal", 7, "tt=b", fold_equal),
    ALIGNED("Greater", 1, "nn=b"),
    EACH("Greater", 7, "nn=b", fold_greater),
    EACH("GreaterOrEqual", 12, "nn=b", fold_greater_or_equal),
    ALIGNED("Less", 1, "nn=b"),
    EACH("Less", 7, "nn=b", fold_less),
    EACH("LessOrEqual", 12, "nn=b", fold_less_or_equal),
    EACH("Max", 6, "n*=n", fold_max),
    EACH("Mean", 6, "f*=f", NULL),
    EACH("Min", 6, "n*=n", fold_min),
    {"Mod", 10, "nn=n", "fmod:i", 0, bd_onnx_infer_pointwise, fold_mod},
    ALIGNED("Mul", 6, "nn=n"),
    EACH("Mul", 7, "nn=n", fold_mul),
    ALIGNED("Or", 1, "bb=b"),
    EACH("Or", 7, "bb=b", fold_or),
    {"PRelu", 6, "nn=n", "", 0, bd_onnx_infer_same, NULL}, // a list of slopes: one per channel
    {"PRelu", 7, "nn=n", "", 0, bd_onnx_infer_same, NULL},
    ALIGNED("Pow", 1, "nn=n"),
    EACH("Pow", 7, "nn=n", fold_pow),
    EACH("Pow", 12, "nm=n", fold_pow),
    ALIGNED("Sub", 6, "nn=n"),
    EACH("Sub", 7, "nn=n", fold_sub),
    EACH("Sum", 6, "f*=f", NULL),
    ALIGNED("Xor", 1, "bb=b"),
    EACH("Xor", 7, "bb=b", fold_xor),
};
const bd_onnx_rules bd_onnx_arithmetic_rules = {sizeof rules / sizeof *rules, rules};
