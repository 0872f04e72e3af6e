// Ops of one operand, an element at a time, and those that choose or convert.
#include "frontend/onnx/infer/step.h"
#include <math.h>

#define SCALAR(name)                                                                               \
  static bool name(const bd_onnx_step *step, const bd_onnx_number *in, bd_onnx_number *out)
#define REAL(name, expression)                                                                     \
  SCALAR(name) {                                                                                   \
    double x = in[0].real;                                                                         \
    out->real = (expression);                                                                      \
    return true;                                                                                   \
  }

REAL(real_exp, exp(x))
REAL(real_log, log(x))
REAL(real_sqrt, sqrt(x))
REAL(real_sin, sin(x))
REAL(real_cos, cos(x))
REAL(real_tanh, tanh(x))
REAL(real_sigmoid, 1 / (1 + exp(-x)))
REAL(real_erf, erf(x))
REAL(real_reciprocal, 1 / x)
REAL(real_floor, floor(x))
REAL(real_ceil, ceil(x))
REAL(real_round, nearbyint(x))

static bool is_real(const bd_onnx_step *step) {
  return bd_onnx_is_float(step->in[0]->dtype);
}

// Integers go with c * B as with c where only the sign of c matters.
SCALAR(fold_abs) {
  *out = in[0];
  if (is_real(step))
    out->real = fabs(in[0].real);
  else if (in[0].integer < 0)
    return bd_onnx_subtract(bd_onnx_whole(0), in[0], out);
  return true;
}

SCALAR(fold_neg) {
  if (!is_real(step)) return bd_onnx_subtract(bd_onnx_whole(0), in[0], out);
  out->real = -in[0].real;
  return true;
}

SCALAR(fold_sign) {
  double x = in[0].real;
  if (is_real(step))
    out->real = x > 0 ? 1 : x < 0 ? -1 : x;
  else
    *out = bd_onnx_whole((in[0].integer > 0) - (in[0].integer < 0));
  return true;
}

SCALAR(fold_relu) {
  *out = in[0];
  if (is_real(step))
    out->real = in[0].real < 0 ? 0 : in[0].real;
  else if (in[0].integer < 0)
    *out = bd_onnx_whole(0);
  return true;
}

SCALAR(fold_not) {
  *out = bd_onnx_whole(!in[0].integer);
  return true;
}

// Bounds are operands since version 11 and attributes before; integers have operands.
SCALAR(fold_clip) {
  *out = in[0];
  if (is_real(step)) {
    double low = step->in[1] ? in[1].real : bd_onnx_real(step, "min", -INFINITY);
    double high = step->in[2] ? in[2].real : bd_onnx_real(step, "max", INFINITY);
    out->real = fmin(fmax(in[0].real, low), high);
    return true;
  }
  int sign = 0;
  if (step->in[1]) {
    if (!bd_onnx_compare(*out, in[1], &sign)) return false;
    if (sign < 0) *out = in[1];
  }
  if (step->in[2]) {
    if (!bd_onnx_compare(*out, in[2], &sign)) return false;
    if (sign > 0) *out = in[2];
  }
  return true;
}

SCALAR(fold_where) {
  *out = in[0].integer ? in[1] : in[2];
  return true;
}

SCALAR(fold_cast) {
  bd_onnx_dtype from = step->in[0]->dtype, to = step->out[0].dtype;
  *out = in[0];
  if (bd_onnx_is_float(from) == bd_onnx_is_float(to)) return true;
  if (bd_onnx_is_float(to)) {
    out->batch = false;
    out->real = (double)in[0].integer;
    return !in[0].batch;
  }
  double x = in[0].real;
  if (to == BD_ONNX_BOOL)
    *out = bd_onnx_whole(x != 0);
  else if (x > -0x1p63 && x < 0x1p63)
    *out = bd_onnx_whole((int64_t)x);
  else if (x <= -0x1p63) // the logarithm of a distance of 0, which nothing takes
    *out = bd_onnx_whole(INT64_MIN);
  else
    return false;
  return true;
}

// Since version 11 the bounds are operands of one element, which leave the shape alone.
static bd_status infer_clip(bd_onnx_step *step) {
  for (int i = 1; i < step->in_count; i++)
    if (step->in[i] &&
        (step->in[i]->rank > 1 || !bd_onnx_plain(step->in[i]) || bd_onnx_count(step->in[i]) != 1))
      return bd_onnx_step_fail(step, BD_INVALID, "operand %d must be one number", i);
  return bd_onnx_infer_pointwise(step);
}

static bd_status infer_cast(bd_onnx_step *step) {
  int64_t to = bd_onnx_int(step, "to", 0);
  step->out[0].dtype = to >= 0 && to < 128 ? (bd_onnx_dtype)to : BD_ONNX_UNDEFINED;
  if (bd_onnx_dtype_bytes(step->out[0].dtype) == 0)
    return bd_onnx_step_fail(step, BD_UNSUPPORTED, "casts to %s (%lld), which braid does not have",
                             bd_onnx_dtype_name(step->out[0].dtype), (long long)to);
  return bd_onnx_infer_pointwise(step);
}

// The second operand only lends its type.
static bd_status infer_cast_like(bd_onnx_step *step) {
  step->in_count = 1;
  return bd_onnx_infer_pointwise(step);
}

#define EACH(op, since, signature, scalar)                                                         \
  { op, since, signature, "", 0, bd_onnx_infer_pointwise, scalar }
#define WITH(op, since, signature, attributes)                                                     \
  { op, since, signature, attributes, 0, bd_onnx_infer_pointwise, NULL }

static const bd_onnx_rule rules[] = {
    EACH("Abs", 6, "n=n", fold_abs),
    EACH("Ceil", 6, "f=f", real_ceil),
    EACH("Cos", 7, "f=f", real_cos),
    EACH("Erf", 9, "f=f", real_erf),
    EACH("Exp", 6, "f=f", real_exp),
    EACH("Floor", 6, "f=f", real_floor),
    EACH("HardSwish", 14, "f=f", NULL),
    EACH("IsNaN", 9, "f=b", NULL),
    EACH("Log", 6, "f=f", real_log),
    EACH("Mish", 18, "f=f", NULL),
    EACH("Neg", 6, "n=n", fold_neg),
    EACH("Not", 1, "b=b", fold_not),
    EACH("Reciprocal", 6, "f=f", real_reciprocal),
    EACH("Relu", 6, "n=n", fold_relu),
    EACH("Round", 11, "f=f", real_round),
    EACH("Sigmoid", 6, "f=f", real_sigmoid),
    EACH("Sign", 9, "n=n", fold_sign),
    EACH("Sin", 7, "f=f", real_sin),
    EACH("Softplus", 1, "f=f", NULL),
    EACH("Softsign", 1, "f=f", NULL),
    EACH("Sqrt", 6, "f=f", real_sqrt),
    EACH("Tanh", 6, "f=f", real_tanh),
    EACH("Where", 9, "btt=t", fold_where),
    WITH("Celu", 12, "f=f", "alpha:f"),
    WITH("Elu", 6, "f=f", "alpha:f"),
    WITH("Gelu", 20, "f=f", "approximate:s{none,tanh}"),
    WITH("HardSigmoid", 6, "f=f", "alpha:f beta:f"),
    WITH("IsInf", 10, "f=b", "detect_negative:i detect_positive:i"),
    WITH("LeakyRelu", 6, "f=f", "alpha:f"),
    WITH("Selu", 6, "f=f", "alpha:f gamma:f"),
    {"Cast", 6, "t=x", "to:i", 0, infer_cast, fold_cast},
    {"Cast", 19, "t=x", "to:i saturate:i", 0, infer_cast, fold_cast},
    {"CastLike", 15, "tu=u", "", 0, infer_cast_like, fold_cast},
    {"CastLike", 19, "tu=u", "saturate:i", 0, infer_cast_like, fold_cast},
    {"Clip", 6, "n=n", "min:f max:f", 0, infer_clip, fold_clip},
    {"Clip", 11, "nn?n?=n", "", 0, infer_clip, fold_clip},
};
const bd_onnx_rules bd_onnx_pointwise_rules = {sizeof rules / sizeof *rules, rules};
