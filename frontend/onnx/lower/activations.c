// Activations that are made of the graph's ops.
#include "frontend/onnx/lower/layout.h"
#include <math.h>
#include <string.h>

#define EMIT1(kind, x, out) BD_TRY(bd_onnx_emit1(l, kind, x, out))
#define EMIT2(kind, x, y, out) BD_TRY(bd_onnx_emit2(l, kind, x, y, out))
#define EMIT_REAL(kind, x, value, out) BD_TRY(bd_onnx_emit_real(l, kind, x, value, out))

// Keeps what `make` does of operand 0, whose layout stays.
static bd_status finish(bd_onnx_lowering *l, const bd_onnx_step *step, bd_onnx_part part,
                        bd_id id) {
  part.id = id;
  bd_onnx_made(l, step, 0, part);
  return BD_OK;
}

// max(x, 0) * above + f * below, where f is min(x, 0) or what is given for it.
static bd_status two_sides(bd_onnx_lowering *l, bd_id x, double above, bd_id below, double scale,
                           bd_id *out) {
  bd_id positive;
  EMIT1(BD_OP_RELU, x, &positive);
  if (above != 1) EMIT_REAL(BD_OP_SCALE, positive, above, &positive);
  EMIT_REAL(BD_OP_SCALE, below, scale, &below);
  EMIT2(BD_OP_ADD, positive, below, out);
  return BD_OK;
}

// -min(x, 0).
static bd_status negative_part(bd_onnx_lowering *l, bd_id x, bd_id *out) {
  EMIT1(BD_OP_NEG, x, out);
  EMIT1(BD_OP_RELU, *out, out);
  return BD_OK;
}

static bd_status lower_leaky(bd_onnx_lowering *l, const bd_onnx_step *step) {
  bd_onnx_part x;
  bd_id below, out;
  BD_TRY(bd_onnx_operand(l, step, 0, &x));
  BD_TRY(negative_part(l, x.id, &below));
  BD_TRY(two_sides(l, x.id, 1, below, -bd_onnx_real(step, "alpha", 0.01), &out));
  return finish(l, step, x, out);
}

// exp(min(x, 0) * rate) - 1: never overflows, and has the gradient 0 above 0 but for its rate
// there.
static bd_status bounded_exp(bd_onnx_lowering *l, bd_id x, double rate, bd_id *out) {
  BD_TRY(negative_part(l, x, out));
  EMIT_REAL(BD_OP_SCALE, *out, -rate, out);
  EMIT1(BD_OP_EXP, *out, out);
  EMIT_REAL(BD_OP_OFFSET, *out, -1, out);
  return BD_OK;
}

// Elu, Selu and Celu: gamma * (x above 0, alpha * (exp(x / rate) - 1) below).
static bd_status lower_elu(bd_onnx_lowering *l, const bd_onnx_step *step) {
  bool selu = strcmp(step->node->op, "Selu") == 0, celu = strcmp(step->node->op, "Celu") == 0;
  double alpha = bd_onnx_real(step, "alpha", selu ? 1.67326319217681884765625 : 1);
  double gamma = bd_onnx_real(step, "gamma", selu ? 1.05070102214813232421875 : 1);
  bd_onnx_part x;
  bd_id below, out;
  if (alpha == 0) return bd_onnx_step_fail(step, BD_UNSUPPORTED, "has an alpha of 0");
  BD_TRY(bd_onnx_operand(l, step, 0, &x));
  BD_TRY(bounded_exp(l, x.id, celu ? 1 / alpha : 1, &below));
  BD_TRY(two_sides(l, x.id, gamma, below, gamma * alpha, &out));
  return finish(l, step, x, out);
}

// log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)).
static bd_status softplus(bd_onnx_lowering *l, bd_id x, bd_id *out) {
  bd_id size, positive;
  EMIT1(BD_OP_ABS, x, &size);
  EMIT1(BD_OP_NEG, size, &size);
  EMIT1(BD_OP_EXP, size, &size);
  EMIT_REAL(BD_OP_OFFSET, size, 1, &size);
  EMIT1(BD_OP_LOG, size, &size);
  EMIT1(BD_OP_RELU, x, &positive);
  EMIT2(BD_OP_ADD, positive, size, out);
  return BD_OK;
}

static bd_status lower_softplus(bd_onnx_lowering *l, const bd_onnx_step *step) {
  bd_onnx_part x;
  bd_id out;
  BD_TRY(bd_onnx_operand(l, step, 0, &x));
  BD_TRY(softplus(l, x.id, &out));
  return finish(l, step, x, out);
}

static bd_status lower_mish(bd_onnx_lowering *l, const bd_onnx_step *step) {
  bd_onnx_part x;
  bd_id out;
  BD_TRY(bd_onnx_operand(l, step, 0, &x));
  BD_TRY(softplus(l, x.id, &out));
  EMIT1(BD_OP_TANH, out, &out);
  EMIT2(BD_OP_MUL, x.id, out, &out);
  return finish(l, step, x, out);
}

static bd_status lower_softsign(bd_onnx_lowering *l, const bd_onnx_step *step) {
  bd_onnx_part x;
  bd_id out;
  BD_TRY(bd_onnx_operand(l, step, 0, &x));
  EMIT1(BD_OP_ABS, x.id, &out);
  EMIT_REAL(BD_OP_OFFSET, out, 1, &out);
  EMIT2(BD_OP_DIV, x.id, out, &out);
  return finish(l, step, x, out);
}

static bd_status lower_gelu(bd_onnx_lowering *l, const bd_onnx_step *step) {
  bool tanh = strcmp(bd_onnx_text(step, "approximate", "none"), "tanh") == 0;
  bd_onnx_part x;
  bd_id out;
  BD_TRY(bd_onnx_operand(l, step, 0, &x));
  EMIT1(tanh ? BD_OP_GELU : BD_OP_GELU_ERF, x.id, &out);
  return finish(l, step, x, out);
}

// max(0, min(1, alpha * x + beta)); HardSwish is x times that of 1/6 and 1/2.
static bd_status lower_hard(bd_onnx_lowering *l, const bd_onnx_step *step) {
  bool swish = strcmp(step->node->op, "HardSwish") == 0;
  bd_onnx_part x;
  bd_id out, one;
  BD_TRY(bd_onnx_operand(l, step, 0, &x));
  EMIT_REAL(BD_OP_SCALE, x.id, bd_onnx_real(step, "alpha", swish ? 1.0 / 6 : 0.2), &out);
  EMIT_REAL(BD_OP_OFFSET, out, bd_onnx_real(step, "beta", 0.5), &out);
  BD_TRY(bd_onnx_number_op(l, bd_onnx_type(l, out)->dtype, 1, &one));
  EMIT2(BD_OP_MIN, out, one, &out);
  EMIT1(BD_OP_RELU, out, &out);
  if (swish) EMIT2(BD_OP_MUL, x.id, out, &out);
  return finish(l, step, x, out);
}

static bd_status lower_reciprocal(bd_onnx_lowering *l, const bd_onnx_step *step) {
  bd_onnx_part x;
  bd_id one, out;
  BD_TRY(bd_onnx_operand(l, step, 0, &x));
  BD_TRY(bd_onnx_number_op(l, bd_onnx_type(l, x.id)->dtype, 1, &one));
  EMIT2(BD_OP_DIV, one, x.id, &out);
  return finish(l, step, x, out);
}

// A number is not one where it differs from itself.
static bd_status lower_is_nan(bd_onnx_lowering *l, const bd_onnx_step *step) {
  bd_onnx_part x;
  bd_id out;
  BD_TRY(bd_onnx_operand(l, step, 0, &x));
  EMIT2(BD_OP_EQ, x.id, x.id, &out);
  EMIT1(BD_OP_NOT, out, &out);
  return finish(l, step, x, out);
}

static bd_status lower_is_inf(bd_onnx_lowering *l, const bd_onnx_step *step) {
  bool positive = bd_onnx_int(step, "detect_positive", 1) != 0;
  bool negative = bd_onnx_int(step, "detect_negative", 1) != 0;
  bd_onnx_part x;
  bd_id limit, out;
  BD_TRY(bd_onnx_operand(l, step, 0, &x));
  if (positive && negative)
    EMIT1(BD_OP_ABS, x.id, &out);
  else
    out = x.id;
  double infinity = positive ? INFINITY : -INFINITY;
  // Neither is looked for: nothing equals this.
  if (!positive && !negative) infinity = NAN;
  BD_TRY(bd_onnx_number_op(l, bd_onnx_type(l, out)->dtype, infinity, &limit));
  EMIT2(BD_OP_EQ, out, limit, &out);
  return finish(l, step, x, out);
}

static const bd_onnx_lower_rule rules[] = {
    {"Celu", lower_elu, BD_OP_EXP},          {"Elu", lower_elu, BD_OP_EXP},
    {"Gelu", lower_gelu, BD_OP_GELU},        {"HardSigmoid", lower_hard, BD_OP_RELU},
    {"HardSwish", lower_hard, BD_OP_RELU},   {"IsInf", lower_is_inf, BD_OP_EQ},
    {"IsNaN", lower_is_nan, BD_OP_EQ},       {"LeakyRelu", lower_leaky, BD_OP_RELU},
    {"Mish", lower_mish, BD_OP_TANH},        {"Reciprocal", lower_reciprocal, BD_OP_DIV},
    {"Selu", lower_elu, BD_OP_EXP},          {"Softplus", lower_softplus, BD_OP_LOG},
    {"Softsign", lower_softsign, BD_OP_DIV},
};
const bd_onnx_lower_rules bd_onnx_lower_activations = {sizeof rules / sizeof *rules, rules};
