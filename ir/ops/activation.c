// relu, gelu (tanh form), gelu_erf, silu, and their gradients as ops X_grad(x, dy).
#include "ir/ops/ops.h"
#include <math.h>

static const double sqrt_2_over_pi = 0.79788456080286535588;
static const double inverse_sqrt_2 = 0.70710678118654752440;
static const double inverse_sqrt_2_pi = 0.39894228040143267794;
static const double gelu_cubic = 0.044715;

static double relu(double x) {
  return x > 0 ? x : 0;
}
static double relu_slope(double x) {
  return x > 0 ? 1 : 0;
}
static double gelu(double x) {
  return 0.5 * x * (1 + tanh(sqrt_2_over_pi * (x + gelu_cubic * x * x * x)));
}
static double gelu_slope(double x) {
  double t = tanh(sqrt_2_over_pi * (x + gelu_cubic * x * x * x));
  double inner = sqrt_2_over_pi * (1 + 3 * gelu_cubic * x * x);
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner;
}
static double gelu_erf(double x) {
  return 0.5 * x * (1 + erf(x * inverse_sqrt_2));
}
static double gelu_erf_slope(double x) {
  return 0.5 * (1 + erf(x * inverse_sqrt_2)) + x * inverse_sqrt_2_pi * exp(-0.5 * x * x);
}
static double silu(double x) {
  return x / (1 + exp(-x));
}
static double silu_slope(double x) {
  double s = 1 / (1 + exp(-x));
  return s * (1 + x * (1 - s));
}

#define ACTIVATION(spelling, NAME)                                                                 \
  BD_EVAL(spelling) {                                                                              \
    BD_IGNORE(op, key, scratch);                                                                   \
    int64_t count = bd_tensor_elements(out);                                                       \
    for (int64_t i = 0; i < count; i++)                                                            \
      out->data[i] = spelling(in[0].data[i]);                                                      \
  }                                                                                                \
  BD_EVAL(spelling##_grad) {                                                                       \
    BD_IGNORE(op, key, scratch);                                                                   \
    int64_t count = bd_tensor_elements(out);                                                       \
    for (int64_t i = 0; i < count; i++)                                                            \
      out->data[i] = spelling##_slope(in[0].data[i]) * in[1].data[i];                              \
  }                                                                                                \
  BD_GRADIENT(spelling) {                                                                          \
    return bd_gradient_binary(ctx, g, BD_OP_##NAME##_GRAD, bd_gradient_operand(g, 0), g->dout[0],  \
                              &g->din[0]);                                                         \
  }

ACTIVATION(relu, RELU)
ACTIVATION(gelu, GELU)
ACTIVATION(gelu_erf, GELU_ERF)
ACTIVATION(silu, SILU)
