// Elementary functions as branch-free polynomials, so that they run in vector lanes and give the
// same bits on every processor. Series are Taylor's after reduction to a small interval; errors are
// one or two units in the last place of f32. GPUs have instructions for powers of two and
// reciprocals, which take the place of series and divisions in what is computed for every element
// (docs/numerics.md has the bounds).
#include "codegen/kernel/gen.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))
#define EXP_MAGIC 12582912.0 // 1.5 * 2^23: adding it rounds to an integer
#define LOG2_E 1.44269504088896341

static LLVMValueRef select_real(bd_gen *g, LLVMRealPredicate predicate, LLVMValueRef a,
                                LLVMValueRef b, LLVMValueRef yes, LLVMValueRef no) {
  return LLVMBuildSelect(g->b, LLVMBuildFCmp(g->b, predicate, a, b, ""), yes, no, "");
}

static LLVMValueRef bits_of(bd_gen *g, LLVMValueRef x) {
  return LLVMBuildBitCast(g->b, x, bd_gen_type_like(x, bd_gen_i32(g)), "");
}

static LLVMValueRef real_of(bd_gen *g, LLVMValueRef bits) {
  return LLVMBuildBitCast(g->b, bits, bd_gen_type_like(bits, bd_gen_f32(g)), "");
}

static LLVMValueRef power_of_two(bd_gen *g, LLVMValueRef n) {
  LLVMValueRef biased = LLVMBuildAdd(g->b, n, bd_gen_int_like(n, 127), "");
  return real_of(g, LLVMBuildShl(g->b, biased, bd_gen_int_like(n, 23), ""));
}

static bool by_gpu(bd_gen *g, LLVMValueRef x) {
  return g->cuda && bd_gen_scalar_of(x) == bd_gen_f32(g);
}

// A GPU's instruction on each element. It takes numbers below the smallest normal one for 0.
static LLVMValueRef each_by_gpu(bd_gen *g, const char *name, LLVMValueRef x) {
  if (LLVMGetTypeKind(LLVMTypeOf(x)) != LLVMVectorTypeKind)
    return bd_gen_intrinsic(g, name, 0, NULL, 1, &x);
  LLVMValueRef y = LLVMGetPoison(LLVMTypeOf(x));
  for (unsigned i = 0; i < LLVMGetVectorSize(LLVMTypeOf(x)); i++) {
    LLVMValueRef at = LLVMConstInt(bd_gen_i32(g), i, false);
    LLVMValueRef element = LLVMBuildExtractElement(g->b, x, at, "");
    element = bd_gen_intrinsic(g, name, 0, NULL, 1, &element);
    y = LLVMBuildInsertElement(g->b, y, element, at, "");
  }
  return y;
}

static LLVMValueRef gpu_exp2(bd_gen *g, LLVMValueRef x) {
  return each_by_gpu(g, "llvm.nvvm.ex2.approx.ftz.f", x);
}

static LLVMValueRef gpu_reciprocal(bd_gen *g, LLVMValueRef x) {
  return each_by_gpu(g, "llvm.nvvm.rcp.approx.ftz.f", x);
}

// exp(x) from a product that is rounded once: a unit in its last place is |x| units of the result.
static LLVMValueRef gpu_exp(bd_gen *g, LLVMValueRef x) {
  return gpu_exp2(g, LLVMBuildFMul(g->b, x, bd_gen_real_like(x, LOG2_E), ""));
}

// Of x = n ln2 + r the power exp(r), with r in units of ln2.
static LLVMValueRef gpu_exp_rest(bd_gen *g, LLVMValueRef x, LLVMValueRef n) {
  const float high = (float)LOG2_E;
  LLVMValueRef r = bd_gen_fma(g, x, bd_gen_real_like(x, high), LLVMBuildFNeg(g->b, n, ""));
  return gpu_exp2(g, bd_gen_fma(g, x, bd_gen_real_like(x, LOG2_E - high), r));
}

// x = n ln2 + r with |r| <= ln2/2. Returns exp(r); `out_t`: 1.5 * 2^23 + n, whose last bits are n.
static LLVMValueRef exp_reduced(bd_gen *g, LLVMValueRef x, LLVMValueRef *out_t) {
  static const double taylor[] = {1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5};
  LLVMValueRef magic = bd_gen_real_like(x, EXP_MAGIC);
  LLVMValueRef t = bd_gen_fma(g, x, bd_gen_real_like(x, LOG2_E), magic);
  LLVMValueRef n = LLVMBuildFSub(g->b, t, magic, "");
  *out_t = t;
  if (by_gpu(g, x)) return gpu_exp_rest(g, x, n);
  LLVMValueRef r = bd_gen_fma(g, n, bd_gen_real_like(x, -0.693145751953125), x);
  r = bd_gen_fma(g, n, bd_gen_real_like(x, -1.42860682030941723e-6), r);
  LLVMValueRef p = bd_gen_poly(g, r, COUNT(taylor), taylor);
  p = bd_gen_fma(g, p, LLVMBuildFMul(g->b, r, r, ""), r);
  return LLVMBuildFAdd(g->b, p, bd_gen_real_like(x, 1.0), "");
}

// exp(x) = 2^n exp(r). The scale is applied in two factors so that results near overflow and below
// the smallest normal number come out right.
LLVMValueRef bd_gen_exp(bd_gen *g, LLVMValueRef x) {
  if (bd_gen_scalar_of(x) == bd_gen_f64(g)) return bd_gen_exp_wide(g, x);
  LLVMValueRef low = bd_gen_real_like(x, -105.0), high = bd_gen_real_like(x, 90.0), t;
  x = select_real(g, LLVMRealOLT, x, low, low, x);
  x = select_real(g, LLVMRealOGT, x, high, high, x);
  LLVMValueRef p = exp_reduced(g, x, &t);
  LLVMValueRef magic = bd_gen_real_like(x, EXP_MAGIC);
  LLVMValueRef k = LLVMBuildSub(g->b, bits_of(g, t), bits_of(g, magic), "");
  LLVMValueRef half = LLVMBuildAShr(g->b, k, bd_gen_int_like(k, 1), "");
  p = LLVMBuildFMul(g->b, p, power_of_two(g, half), "");
  return LLVMBuildFMul(g->b, p, power_of_two(g, LLVMBuildSub(g->b, k, half, "")), "");
}

// From -87 on the scale is a normal number. Shifting t to the exponent leaves n of it alone.
LLVMValueRef bd_gen_exp_weight(bd_gen *g, LLVMValueRef x) {
  if (by_gpu(g, x)) return gpu_exp(g, x);
  LLVMValueRef t, low = bd_gen_real_like(x, -87.0), zero = bd_gen_real_like(x, 0.0);
  LLVMValueRef p = exp_reduced(g, x, &t);
  p = LLVMBuildFMul(g->b, p, power_of_two(g, bits_of(g, t)), "");
  return select_real(g, LLVMRealOLT, x, low, zero, p);
}

// x = 2^e m with m in [sqrt(1/2), sqrt(2)); log(m) is the series of 2 artanh(s), s = f / (2 + f), f
// = m - 1.
LLVMValueRef bd_gen_log(bd_gen *g, LLVMValueRef x) {
  if (bd_gen_scalar_of(x) == bd_gen_f64(g)) return bd_gen_log_wide(g, x);
  static const double series[] = {2.0 / 11, 2.0 / 9, 2.0 / 7, 2.0 / 5, 2.0 / 3};
  LLVMValueRef zero = bd_gen_real_like(x, 0.0), one = bd_gen_real_like(x, 1.0);
  LLVMValueRef smallest = bd_gen_real_like(x, 1.17549435082228751e-38);
  LLVMValueRef tiny = LLVMBuildFCmp(g->b, LLVMRealOLT, x, smallest, "");
  LLVMValueRef raised = LLVMBuildFMul(g->b, x, bd_gen_real_like(x, 8388608.0), "");
  LLVMValueRef bits = bits_of(g, LLVMBuildSelect(g->b, tiny, raised, x, ""));
  LLVMValueRef root = bd_gen_int_like(bits, 0x3f3504f3); // sqrt(1/2)
  LLVMValueRef i = LLVMBuildSub(g->b, bits, root, "");
  LLVMValueRef whole = LLVMBuildAShr(g->b, i, bd_gen_int_like(i, 23), "");
  LLVMValueRef e = LLVMBuildSIToFP(g->b, whole, LLVMTypeOf(x), "");
  e = LLVMBuildSelect(g->b, tiny, LLVMBuildFSub(g->b, e, bd_gen_real_like(x, 23.0), ""), e, "");
  i = LLVMBuildAnd(g->b, i, bd_gen_int_like(i, 0x7fffff), "");
  LLVMValueRef f = LLVMBuildFSub(g->b, real_of(g, LLVMBuildAdd(g->b, i, root, "")), one, "");
  LLVMValueRef s = LLVMBuildFDiv(g->b, f, LLVMBuildFAdd(g->b, f, bd_gen_real_like(x, 2.0), ""), "");
  LLVMValueRef z = LLVMBuildFMul(g->b, s, s, "");
  LLVMValueRef r = LLVMBuildFMul(g->b, z, bd_gen_poly(g, z, COUNT(series), series), "");
  LLVMValueRef low = LLVMBuildFMul(g->b, e, bd_gen_real_like(x, 1.42860682030941723e-6), "");
  LLVMValueRef tail = bd_gen_fma(g, s, LLVMBuildFSub(g->b, r, f, ""), low);
  LLVMValueRef y = LLVMBuildFAdd(g->b, f, tail, "");
  y = bd_gen_fma(g, e, bd_gen_real_like(x, 0.693145751953125), y);
  LLVMValueRef infinity = bd_gen_real_like(x, 1.0 / 0.0);
  y = select_real(g, LLVMRealULT, x, infinity, y, x); // inf and NaN pass through
  y = select_real(g, LLVMRealUNO, x, x, x, y);
  y = select_real(g, LLVMRealOLT, x, zero, bd_gen_real_like(x, 0.0 / 0.0), y);
  return select_real(g, LLVMRealOEQ, x, zero, bd_gen_real_like(x, -1.0 / 0.0), y);
}

// Its own series below 0.55, 1 - 2 / (exp(2x) + 1) above.
LLVMValueRef bd_gen_tanh(bd_gen *g, LLVMValueRef x) {
  static const double series[] = {6404582.0 / 10854718875.0,
                                  -929569.0 / 638512875.0,
                                  21844.0 / 6081075.0,
                                  -1382.0 / 155925.0,
                                  62.0 / 2835.0,
                                  -17.0 / 315.0,
                                  2.0 / 15.0,
                                  -1.0 / 3.0};
  LLVMValueRef z = LLVMBuildFMul(g->b, x, x, ""), one = bd_gen_real_like(x, 1.0);
  LLVMValueRef small = bd_gen_poly(g, z, COUNT(series), series);
  small = bd_gen_fma(g, LLVMBuildFMul(g->b, small, z, ""), x, x);
  LLVMValueRef a = bd_gen_unary(g, "llvm.fabs", x), two = bd_gen_real_like(x, 2.0);
  LLVMValueRef large;
  if (by_gpu(g, x)) {
    LLVMValueRef e = gpu_exp(g, LLVMBuildFMul(g->b, a, two, ""));
    LLVMValueRef q = gpu_reciprocal(g, LLVMBuildFAdd(g->b, e, one, ""));
    large = bd_gen_fma(g, q, bd_gen_real_like(x, -2.0), one);
  } else {
    LLVMValueRef e = bd_gen_exp(g, LLVMBuildFMul(g->b, a, two, ""));
    LLVMValueRef q = LLVMBuildFDiv(g->b, two, LLVMBuildFAdd(g->b, e, one, ""), "");
    large = LLVMBuildFSub(g->b, one, q, "");
  }
  large = bd_gen_copysign(g, large, x);
  return select_real(g, LLVMRealOLT, a, bd_gen_real_like(x, 0.55), small, large);
}

// The power series below 1; above, 1 - exp(-x^2) P(1 / (1 + x/2)), P a Chebyshev fit of exp(x^2)
// erfc(x) on [1, 4.2] with error below 1e-8. From 4 on the result is 1.
LLVMValueRef bd_gen_erf(bd_gen *g, LLVMValueRef x) {
  static const double tail[] = {-0.05809020743, -0.04338603838, 0.3861862587,   0.1130556456,
                                0.3264605984,   0.274476618,    0.0005370958178};
  double series[11], factorial = 1; // (-1)^n / (n! (2n + 1)) of z^n, n from 11 down to 1
  for (int n = 1; n <= 11; n++) {
    factorial *= n;
    series[11 - n] = (n % 2 ? -1.0 : 1.0) / (factorial * (2 * n + 1)) * 1.12837916709551257;
  }
  LLVMValueRef z = LLVMBuildFMul(g->b, x, x, ""), one = bd_gen_real_like(x, 1.0);
  LLVMValueRef small = LLVMBuildFMul(g->b, z, bd_gen_poly(g, z, 11, series), "");
  // 2/sqrt(pi) x as x + 0.128... x keeps the leading term exact.
  small = LLVMBuildFAdd(g->b, small, bd_gen_real_like(x, 0.12837916709551257), "");
  small = bd_gen_fma(g, small, x, x);
  LLVMValueRef a = bd_gen_unary(g, "llvm.fabs", x), end = bd_gen_real_like(x, 4.0);
  a = select_real(g, LLVMRealOGT, a, end, end, a);
  LLVMValueRef denominator = bd_gen_fma(g, a, bd_gen_real_like(x, 0.5), one);
  LLVMValueRef t =
      by_gpu(g, x) ? gpu_reciprocal(g, denominator) : LLVMBuildFDiv(g->b, one, denominator, "");
  LLVMValueRef square = LLVMBuildFNeg(g->b, LLVMBuildFMul(g->b, a, a, ""), "");
  LLVMValueRef e = by_gpu(g, x) ? gpu_exp(g, square) : bd_gen_exp(g, square);
  LLVMValueRef complement = LLVMBuildFMul(g->b, e, bd_gen_poly(g, t, COUNT(tail), tail), "");
  LLVMValueRef large = bd_gen_copysign(g, LLVMBuildFSub(g->b, one, complement, ""), x);
  return select_real(g, LLVMRealOLT, a, one, small, large);
}

LLVMValueRef bd_gen_sigmoid(bd_gen *g, LLVMValueRef x) {
  LLVMValueRef one = bd_gen_real_like(x, 1.0), minus = LLVMBuildFNeg(g->b, x, "");
  if (by_gpu(g, x)) return gpu_reciprocal(g, LLVMBuildFAdd(g->b, gpu_exp(g, minus), one, ""));
  LLVMValueRef e = bd_gen_exp(g, minus);
  return LLVMBuildFDiv(g->b, one, LLVMBuildFAdd(g->b, e, one, ""), "");
}

// Newton's step on the instruction's result, but where that is 0 or infinite.
LLVMValueRef bd_gen_reciprocal_root(bd_gen *g, LLVMValueRef x) {
  LLVMValueRef r = each_by_gpu(g, "llvm.nvvm.rsqrt.approx.ftz.f", x);
  LLVMValueRef minus = LLVMBuildFNeg(g->b, LLVMBuildFMul(g->b, x, r, ""), "");
  LLVMValueRef rest = bd_gen_fma(g, minus, r, bd_gen_real_like(x, 1.0));
  LLVMValueRef half = LLVMBuildFMul(g->b, r, bd_gen_real_like(x, 0.5), "");
  LLVMValueRef y = bd_gen_fma(g, half, rest, r);
  return select_real(g, LLVMRealUNO, y, y, r, y);
}

LLVMValueRef bd_gen_sqrt(bd_gen *g, LLVMValueRef x) {
  return bd_gen_unary(g, "llvm.sqrt", x);
}

// Coefficients of z^n in sin(x)/x (first: 1) or cos(x) (first: 0), z = x^2, from the last down to
// z^1.
static void turn_series(int terms, int first, double *out) {
  double term = 1;
  for (int n = 1; n <= terms; n++) {
    term /= -(double)((2 * n - 1 + first) * (2 * n + first));
    out[terms - n] = term;
  }
}

// angle = n pi/2 + r in double, then series of r in [-pi/4, pi/4], in f32 for results in f32.
static void turn(bd_gen *g, LLVMValueRef angle, bool wide, LLVMValueRef *out_sin,
                 LLVMValueRef *out_cos) {
  enum { TERMS = 5, WIDE_TERMS = 9 };
  double sine[WIDE_TERMS], cosine[WIDE_TERMS];
  int terms = wide ? WIDE_TERMS : TERMS;
  turn_series(terms, 1, sine);
  turn_series(terms, 0, cosine);
  LLVMTypeRef ints = bd_gen_type_like(angle, bd_gen_i64(g));
  LLVMValueRef magic = bd_gen_real_like(angle, 6755399441055744.0); // 1.5 * 2^52
  LLVMValueRef t = bd_gen_fma(g, angle, bd_gen_real_like(angle, 0.63661977236758134), magic);
  LLVMValueRef n = LLVMBuildFSub(g->b, t, magic, "");
  LLVMValueRef r = bd_gen_fma(g, n, bd_gen_real_like(angle, -1.57079632679489656), angle);
  r = bd_gen_fma(g, n, bd_gen_real_like(angle, -6.12323399573676604e-17), r);
  LLVMTypeRef type = bd_gen_type_like(angle, wide ? bd_gen_f64(g) : bd_gen_f32(g));
  LLVMValueRef x = LLVMBuildFPCast(g->b, r, type, "");
  LLVMValueRef z = LLVMBuildFMul(g->b, x, x, ""), one = bd_gen_real_like(x, 1.0);
  LLVMValueRef s = LLVMBuildFMul(g->b, bd_gen_poly(g, z, terms, sine), z, "");
  s = bd_gen_fma(g, s, x, x);
  LLVMValueRef c = bd_gen_fma(g, bd_gen_poly(g, z, terms, cosine), z, one);
  LLVMValueRef quadrant = LLVMBuildBitCast(g->b, t, ints, "");
  LLVMValueRef zero = bd_gen_int_like(quadrant, 0), bit0 = bd_gen_int_like(quadrant, 1);
  LLVMValueRef bit1 = bd_gen_int_like(quadrant, 2);
  LLVMValueRef odd =
      LLVMBuildICmp(g->b, LLVMIntNE, LLVMBuildAnd(g->b, quadrant, bit0, ""), zero, "");
  LLVMValueRef flip_sin =
      LLVMBuildICmp(g->b, LLVMIntNE, LLVMBuildAnd(g->b, quadrant, bit1, ""), zero, "");
  LLVMValueRef next = LLVMBuildAdd(g->b, quadrant, bit0, "");
  LLVMValueRef flip_cos =
      LLVMBuildICmp(g->b, LLVMIntNE, LLVMBuildAnd(g->b, next, bit1, ""), zero, "");
  LLVMValueRef sin_value = LLVMBuildSelect(g->b, odd, c, s, "");
  LLVMValueRef cos_value = LLVMBuildSelect(g->b, odd, s, c, "");
  *out_sin = LLVMBuildSelect(g->b, flip_sin, LLVMBuildFNeg(g->b, sin_value, ""), sin_value, "");
  *out_cos = LLVMBuildSelect(g->b, flip_cos, LLVMBuildFNeg(g->b, cos_value, ""), cos_value, "");
}

void bd_gen_turn(bd_gen *g, LLVMValueRef angle, LLVMValueRef *out_sin, LLVMValueRef *out_cos) {
  turn(g, angle, false, out_sin, out_cos);
}

void bd_gen_sincos(bd_gen *g, LLVMValueRef x, LLVMValueRef *out_sin, LLVMValueRef *out_cos) {
  bool wide = bd_gen_scalar_of(x) == bd_gen_f64(g);
  LLVMValueRef angle = LLVMBuildFPCast(g->b, x, bd_gen_type_like(x, bd_gen_f64(g)), "");
  turn(g, angle, wide, out_sin, out_cos);
}
