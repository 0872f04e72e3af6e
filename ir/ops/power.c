// pow and mod.
#include "ir/ops/pointwise.h"
#include <math.h>

// Below exponent 0 only the powers of 1 and -1 are not cut to 0.
static uint64_t pow_whole(const bd_op *op, bd_dtype dtype, uint64_t x, uint64_t y) {
  (void)op;
  bool is_signed = !bd_dtype_is_unsigned(dtype);
  if (is_signed && (int64_t)y < 0)
    return x == 1 ? 1 : x == UINT64_MAX ? (y & 1 ? UINT64_MAX : 1) : 0;
  uint64_t power = 1;
  for (; y; y >>= 1, x *= x)
    if (y & 1) power *= x;
  return power;
}

BD_NUMBER_EVAL(BD_BINARY_EVAL, pow, pow(a, b), pow_whole)

// fmod=1: of the sign of the dividend, else of the divisor. Integers by zero: 0.
static uint64_t mod_whole(const bd_op *op, bd_dtype dtype, uint64_t x, uint64_t y) {
  if (y == 0) return 0;
  if (bd_dtype_is_unsigned(dtype)) return x % y;
  if (y == UINT64_MAX) return 0;
  int64_t rest = (int64_t)x % (int64_t)y;
  bool other_sign = rest != 0 && (rest < 0) != ((int64_t)y < 0);
  return (uint64_t)rest + (other_sign && !bd_op_int(op, "fmod", 0) ? y : 0);
}

static double mod(const bd_op *op, double a, double b) {
  double rest = fmod(a, b);
  bool other_sign = rest != 0 && (rest < 0) != (b < 0);
  return other_sign && !bd_op_int(op, "fmod", 0) ? rest + b : rest;
}

BD_NUMBER_EVAL(BD_BINARY_EVAL, mod, mod(op, a, b), mod_whole)

// d (a^b): b a^(b-1) by a; y log(a) by b, which only positive a have.
static bd_status power_by_base(bd_ctx *ctx, bd_gradient *g, bd_id *out) {
  bd_id a = bd_gradient_operand(g, 0), b = bd_gradient_operand(g, 1), less, power, slope;
  bd_attr one = bd_attr_real(ctx, "value", -1);
  BD_TRY(bd_build(ctx, g->backward, BD_OP_OFFSET, 1, &b, 1, &one, g->op->loc, &less));
  BD_TRY(bd_gradient_binary(ctx, g, BD_OP_POW, a, less, &power));
  BD_TRY(bd_gradient_binary(ctx, g, BD_OP_MUL, power, b, &slope));
  return bd_gradient_binary(ctx, g, BD_OP_MUL, g->dout[0], slope, out);
}

static bd_status power_by_exponent(bd_ctx *ctx, bd_gradient *g, bd_id *out) {
  bd_id a = bd_gradient_operand(g, 0), zero, positive, log, slope, kept;
  const bd_type *type = bd_gradient_operand_type(g, 0);
  BD_TRY(bd_gradient_fill(ctx, g, type, 0, &zero));
  BD_TRY(bd_gradient_binary(ctx, g, BD_OP_LT, zero, a, &positive));
  BD_TRY(bd_gradient_unary(ctx, g, BD_OP_LOG, a, &log));
  BD_TRY(bd_gradient_where(ctx, g, positive, log, false, &kept));
  BD_TRY(bd_gradient_binary(ctx, g, BD_OP_MUL, bd_gradient_result(g, 0), kept, &slope));
  return bd_gradient_binary(ctx, g, BD_OP_MUL, g->dout[0], slope, out);
}

BD_GRADIENT(pow) {
  bd_id part;
  if (g->need[0]) {
    BD_TRY(power_by_base(ctx, g, &part));
    BD_TRY(bd_gradient_sum_to_operand(ctx, g, 0, part, &g->din[0]));
  }
  if (g->need[1]) {
    BD_TRY(power_by_exponent(ctx, g, &part));
    BD_TRY(bd_gradient_sum_to_operand(ctx, g, 1, part, &g->din[1]));
  }
  return BD_OK;
}

// With y = a - n b, n whole: d y = d a - n d b.
BD_GRADIENT(mod) {
  if (g->need[0]) BD_TRY(bd_gradient_sum_to_operand(ctx, g, 0, g->dout[0], &g->din[0]));
  if (!g->need[1]) return BD_OK;
  bd_id a = bd_gradient_operand(g, 0), b = bd_gradient_operand(g, 1), less, n, product;
  BD_TRY(bd_gradient_binary(ctx, g, BD_OP_SUB, bd_gradient_result(g, 0), a, &less));
  BD_TRY(bd_gradient_binary(ctx, g, BD_OP_DIV, less, b, &n));
  BD_TRY(bd_gradient_binary(ctx, g, BD_OP_MUL, g->dout[0], n, &product));
  return bd_gradient_sum_to_operand(ctx, g, 1, product, &g->din[1]);
}
