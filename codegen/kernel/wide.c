// f64: exp and log to a few units in the last place, as in math.c with longer series; powers and
// remainders, which f32 takes through f64.
#include "codegen/kernel/gen.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

static LLVMValueRef bits_of(bd_gen *g, LLVMValueRef x) {
  return LLVMBuildBitCast(g->b, x, bd_gen_type_like(x, bd_gen_i64(g)), "");
}

static LLVMValueRef real_of(bd_gen *g, LLVMValueRef bits) {
  return LLVMBuildBitCast(g->b, bits, bd_gen_type_like(bits, bd_gen_f64(g)), "");
}

static LLVMValueRef select_real(bd_gen *g, LLVMRealPredicate predicate, LLVMValueRef a, double b,
                                LLVMValueRef yes, LLVMValueRef no) {
  LLVMValueRef where = LLVMBuildFCmp(g->b, predicate, a, bd_gen_real_like(a, b), "");
  return LLVMBuildSelect(g->b, where, yes, no, "");
}

static LLVMValueRef power_of_two(bd_gen *g, LLVMValueRef n) {
  LLVMValueRef biased = LLVMBuildAdd(g->b, n, bd_gen_int_like(n, 1023), "");
  return real_of(g, LLVMBuildShl(g->b, biased, bd_gen_int_like(n, 52), ""));
}

LLVMValueRef bd_gen_exp_wide(bd_gen *g, LLVMValueRef x) {
  double taylor[13], factorial = 1; // of r^13 down to r^1
  for (int n = 1; n <= 13; n++)
    taylor[13 - n] = 1 / (factorial *= n);
  LLVMValueRef low = bd_gen_real_like(x, -746.0), high = bd_gen_real_like(x, 710.0);
  LLVMValueRef held = select_real(g, LLVMRealOLT, x, -746.0, low, x);
  held = select_real(g, LLVMRealOGT, held, 710.0, high, held);
  LLVMValueRef magic = bd_gen_real_like(x, 6755399441055744.0); // 1.5 * 2^52
  LLVMValueRef t = bd_gen_fma(g, held, bd_gen_real_like(x, 1.4426950408889634), magic);
  LLVMValueRef n = LLVMBuildFSub(g->b, t, magic, "");
  LLVMValueRef r = bd_gen_fma(g, n, bd_gen_real_like(x, -0.69314718055994529), held);
  r = bd_gen_fma(g, n, bd_gen_real_like(x, -2.3190468138462996e-17), r);
  LLVMValueRef p = LLVMBuildFMul(g->b, bd_gen_poly(g, r, 13, taylor), r, "");
  p = LLVMBuildFAdd(g->b, p, bd_gen_real_like(x, 1.0), "");
  LLVMValueRef k = LLVMBuildSub(g->b, bits_of(g, t), bits_of(g, magic), "");
  LLVMValueRef half = LLVMBuildAShr(g->b, k, bd_gen_int_like(k, 1), "");
  p = LLVMBuildFMul(g->b, p, power_of_two(g, half), "");
  return LLVMBuildFMul(g->b, p, power_of_two(g, LLVMBuildSub(g->b, k, half, "")), "");
}

LLVMValueRef bd_gen_log_wide(bd_gen *g, LLVMValueRef x) {
  double series[11]; // 2 / (2n + 1) of z^n, n from 11 down to 1
  for (int n = 1; n <= 11; n++)
    series[11 - n] = 2.0 / (2 * n + 1);
  const double smallest = 2.2250738585072014e-308;
  LLVMValueRef raised = LLVMBuildFMul(g->b, x, bd_gen_real_like(x, 0x1p54), "");
  LLVMValueRef bits = bits_of(g, select_real(g, LLVMRealOLT, x, smallest, raised, x));
  LLVMValueRef root = bd_gen_int_like(bits, 0x3fe6a09e667f3bcd); // sqrt(1/2)
  LLVMValueRef i = LLVMBuildSub(g->b, bits, root, "");
  LLVMValueRef e = LLVMBuildAShr(g->b, i, bd_gen_int_like(i, 52), "");
  e = LLVMBuildSIToFP(g->b, e, LLVMTypeOf(x), "");
  LLVMValueRef less = LLVMBuildFSub(g->b, e, bd_gen_real_like(e, 54.0), "");
  e = select_real(g, LLVMRealOLT, x, smallest, less, e);
  i = LLVMBuildAnd(g->b, i, bd_gen_int_like(i, 0xfffffffffffff), "");
  LLVMValueRef f = real_of(g, LLVMBuildAdd(g->b, i, root, ""));
  f = LLVMBuildFSub(g->b, f, bd_gen_real_like(f, 1.0), "");
  LLVMValueRef s = LLVMBuildFDiv(g->b, f, LLVMBuildFAdd(g->b, f, bd_gen_real_like(f, 2.0), ""), "");
  LLVMValueRef z = LLVMBuildFMul(g->b, s, s, "");
  LLVMValueRef r = LLVMBuildFMul(g->b, z, bd_gen_poly(g, z, COUNT(series), series), "");
  LLVMValueRef low = LLVMBuildFMul(g->b, e, bd_gen_real_like(e, 1.9082149292705877e-10), "");
  LLVMValueRef y = bd_gen_fma(g, s, LLVMBuildFSub(g->b, r, f, ""), low);
  y = LLVMBuildFAdd(g->b, f, y, "");
  y = bd_gen_fma(g, e, bd_gen_real_like(e, 0.69314718036912382), y);
  y = select_real(g, LLVMRealULT, x, 1.0 / 0.0, y, x); // inf and NaN pass through
  y = select_real(g, LLVMRealOLT, x, 0.0, bd_gen_real_like(x, 0.0 / 0.0), y);
  return select_real(g, LLVMRealOEQ, x, 0.0, bd_gen_real_like(x, -1.0 / 0.0), y);
}

static LLVMValueRef widened(bd_gen *g, LLVMValueRef x) {
  return LLVMBuildFPCast(g->b, x, bd_gen_type_like(x, bd_gen_f64(g)), "");
}

static LLVMValueRef is_whole(bd_gen *g, LLVMValueRef x) {
  return LLVMBuildFCmp(g->b, LLVMRealOEQ, bd_gen_unary(g, "llvm.rint", x), x, "");
}

// exp(b log|a|), of the sign that an odd whole b keeps; whole powers of whole numbers are whole.
LLVMValueRef bd_gen_pow(bd_gen *g, LLVMValueRef base, LLVMValueRef exponent) {
  LLVMValueRef a = widened(g, base), b = widened(g, exponent);
  LLVMValueRef one = bd_gen_real_like(a, 1.0), zero = bd_gen_real_like(a, 0.0);
  LLVMValueRef log = bd_gen_log_wide(g, bd_gen_unary(g, "llvm.fabs", a));
  LLVMValueRef p = bd_gen_exp_wide(g, LLVMBuildFMul(g->b, b, log, ""));
  LLVMValueRef whole = is_whole(g, b);
  LLVMValueRef above = LLVMBuildFCmp(g->b, LLVMRealOGE, b, zero, "");
  LLVMValueRef both = LLVMBuildAnd(g->b, LLVMBuildAnd(g->b, whole, above, ""), is_whole(g, a), "");
  p = LLVMBuildSelect(g->b, both, bd_gen_unary(g, "llvm.rint", p), p, "");
  LLVMValueRef even = is_whole(g, LLVMBuildFMul(g->b, b, bd_gen_real_like(b, 0.5), ""));
  LLVMValueRef odd = LLVMBuildAnd(g->b, whole, LLVMBuildNot(g->b, even, ""), "");
  LLVMValueRef negative = LLVMBuildFCmp(g->b, LLVMRealOLT, a, zero, "");
  LLVMValueRef turned = LLVMBuildSelect(g->b, odd, LLVMBuildFNeg(g->b, p, ""), p, "");
  LLVMValueRef none = LLVMBuildSelect(g->b, whole, turned, bd_gen_real_like(a, 0.0 / 0.0), "");
  p = LLVMBuildSelect(g->b, negative, none, p, "");
  p = select_real(g, LLVMRealOEQ, a, 1.0, one, p);
  p = select_real(g, LLVMRealOEQ, b, 0.0, one, p);
  return LLVMBuildFPCast(g->b, p, LLVMTypeOf(base), "");
}

// a - n b in one rounding, exact below 2^53 quotients once n, rounded, is corrected by one.
LLVMValueRef bd_gen_remainder(bd_gen *g, LLVMValueRef dividend, LLVMValueRef by, bool divisor) {
  LLVMValueRef a = widened(g, dividend), b = widened(g, by);
  LLVMValueRef n = bd_gen_unary(g, "llvm.trunc", LLVMBuildFDiv(g->b, a, b, ""));
  LLVMValueRef r = bd_gen_fma(g, LLVMBuildFNeg(g->b, n, ""), b, a);
  LLVMValueRef size = bd_gen_unary(g, "llvm.fabs", b), step = bd_gen_copysign(g, size, a);
  LLVMValueRef sign = LLVMBuildFMul(g->b, r, bd_gen_copysign(g, bd_gen_real_like(a, 1.0), a), "");
  LLVMValueRef more = LLVMBuildFAdd(g->b, r, step, ""), less = LLVMBuildFSub(g->b, r, step, "");
  LLVMValueRef over = LLVMBuildFCmp(g->b, LLVMRealOGE, sign, size, "");
  LLVMValueRef rest = LLVMBuildSelect(g->b, over, less, r, "");
  rest = select_real(g, LLVMRealOLT, sign, 0.0, more, rest);
  LLVMValueRef finite = LLVMBuildFSub(g->b, a, a, ""); // 0, or no number
  rest = select_real(g, LLVMRealOEQ, size, 1.0 / 0.0, LLVMBuildFAdd(g->b, a, finite, ""), rest);
  if (divisor) {
    LLVMValueRef product =
        LLVMBuildFMul(g->b, bd_gen_copysign(g, bd_gen_real_like(b, 1.0), b), rest, "");
    LLVMValueRef sum = LLVMBuildFAdd(g->b, rest, b, "");
    rest = select_real(g, LLVMRealOLT, product, 0.0, sum, rest);
  }
  return LLVMBuildFPCast(g->b, rest, LLVMTypeOf(dividend), "");
}
