// The arithmetic of pointwise ops on integers, of which results keep the low bits, and on bools.
#include "codegen/kernel/gen.h"

static LLVMValueRef compare(bd_gen *g, LLVMIntPredicate predicate, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildICmp(g->b, predicate, a, b, "");
}

static LLVMValueRef choose(bd_gen *g, LLVMValueRef where, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildSelect(g->b, where, a, b, "");
}

// What hardware divides by: neither 0 nor, as the lowest number has no negative, -1.
typedef struct divisor {
  LLVMValueRef is_zero, is_minus, safe;
} divisor;

static divisor divisor_of(bd_gen *g, bool is_unsigned, LLVMValueRef b) {
  LLVMValueRef one = bd_gen_int_like(b, 1);
  divisor d = {.is_zero = compare(g, LLVMIntEQ, b, bd_gen_int_like(b, 0)),
               .is_minus = compare(g, LLVMIntEQ, b, bd_gen_int_like(b, -1))};
  d.safe = choose(g, d.is_zero, one, b);
  if (!is_unsigned) d.safe = choose(g, d.is_minus, one, d.safe);
  return d;
}

static LLVMValueRef quotient(bd_gen *g, bool is_unsigned, LLVMValueRef a, LLVMValueRef b) {
  divisor d = divisor_of(g, is_unsigned, b);
  LLVMValueRef q =
      is_unsigned ? LLVMBuildUDiv(g->b, a, d.safe, "") : LLVMBuildSDiv(g->b, a, d.safe, "");
  if (!is_unsigned) q = choose(g, d.is_minus, LLVMBuildNeg(g->b, a, ""), q);
  return choose(g, d.is_zero, bd_gen_int_like(a, 0), q);
}

// `by_divisor`: a rest of the sign of the divisor.
static LLVMValueRef rest(bd_gen *g, bool is_unsigned, bool by_divisor, LLVMValueRef a,
                         LLVMValueRef b) {
  divisor d = divisor_of(g, is_unsigned, b);
  LLVMValueRef zero = bd_gen_int_like(a, 0);
  LLVMValueRef r =
      is_unsigned ? LLVMBuildURem(g->b, a, d.safe, "") : LLVMBuildSRem(g->b, a, d.safe, "");
  if (!is_unsigned && by_divisor) {
    LLVMValueRef other = compare(g, LLVMIntSLT, LLVMBuildXor(g->b, r, b, ""), zero);
    other = LLVMBuildAnd(g->b, other, compare(g, LLVMIntNE, r, zero), "");
    r = choose(g, other, LLVMBuildAdd(g->b, r, b, ""), r);
  }
  return choose(g, d.is_zero, zero, r);
}

// By squaring, over the bits of the exponent. Below exponent 0 only the powers of 1 and -1 are not
// cut to 0.
static LLVMValueRef power(bd_gen *g, bool is_unsigned, LLVMValueRef a, LLVMValueRef b) {
  LLVMTypeRef type = LLVMTypeOf(a);
  LLVMValueRef zero = bd_gen_int_like(a, 0), one = bd_gen_int_like(a, 1);
  LLVMValueRef y = bd_gen_variable(g, type), square = bd_gen_variable(g, type),
               bits = bd_gen_variable(g, type);
  LLVMBuildStore(g->b, one, y);
  LLVMBuildStore(g->b, a, square);
  LLVMBuildStore(g->b, b, bits);
  int64_t width = LLVMGetIntTypeWidth(bd_gen_scalar_of(a));
  bd_gen_for each =
      bd_gen_for_begin(g, bd_gen_long(g, 0), bd_gen_long(g, width), bd_gen_long(g, 1));
  LLVMValueRef s = LLVMBuildLoad2(g->b, type, square, ""), n = LLVMBuildLoad2(g->b, type, bits, "");
  LLVMValueRef p = LLVMBuildLoad2(g->b, type, y, "");
  LLVMValueRef odd = compare(g, LLVMIntNE, LLVMBuildAnd(g->b, n, one, ""), zero);
  LLVMBuildStore(g->b, choose(g, odd, LLVMBuildMul(g->b, p, s, ""), p), y);
  LLVMBuildStore(g->b, LLVMBuildMul(g->b, s, s, ""), square);
  LLVMBuildStore(g->b, LLVMBuildLShr(g->b, n, one, ""), bits);
  bd_gen_for_end(g, &each);
  p = LLVMBuildLoad2(g->b, type, y, "");
  if (is_unsigned) return p;
  LLVMValueRef unit = LLVMBuildOr(g->b, compare(g, LLVMIntEQ, a, one),
                                  compare(g, LLVMIntEQ, a, bd_gen_int_like(a, -1)), "");
  LLVMValueRef kept = LLVMBuildOr(g->b, unit, compare(g, LLVMIntSGE, b, zero), "");
  return choose(g, kept, p, zero);
}

static LLVMValueRef sign(bd_gen *g, bool is_unsigned, LLVMValueRef x) {
  LLVMValueRef zero = bd_gen_int_like(x, 0);
  LLVMValueRef y = choose(g, compare(g, LLVMIntNE, x, zero), bd_gen_int_like(x, 1), zero);
  if (is_unsigned) return y;
  return choose(g, compare(g, LLVMIntSLT, x, zero), bd_gen_int_like(x, -1), y);
}

static LLVMValueRef absolute(bd_gen *g, bool is_unsigned, LLVMValueRef x) {
  if (is_unsigned) return x;
  LLVMValueRef below = compare(g, LLVMIntSLT, x, bd_gen_int_like(x, 0));
  return choose(g, below, LLVMBuildNeg(g->b, x, ""), x);
}

LLVMValueRef bd_gen_whole(bd_gen *g, const bd_op *op, bool is_unsigned, const LLVMValueRef *in) {
  LLVMIntPredicate less = is_unsigned ? LLVMIntULT : LLVMIntSLT;
  LLVMIntPredicate less_or_equal = is_unsigned ? LLVMIntULE : LLVMIntSLE;
  switch (op->kind) {
  case BD_OP_ADD:
    return LLVMBuildAdd(g->b, in[0], in[1], "");
  case BD_OP_SUB:
    return LLVMBuildSub(g->b, in[0], in[1], "");
  case BD_OP_MUL:
    return LLVMBuildMul(g->b, in[0], in[1], "");
  case BD_OP_DIV:
    return quotient(g, is_unsigned, in[0], in[1]);
  case BD_OP_MOD:
    return rest(g, is_unsigned, !bd_op_int(op, "fmod", 0), in[0], in[1]);
  case BD_OP_POW:
    return power(g, is_unsigned, in[0], in[1]);
  case BD_OP_NEG:
    return LLVMBuildNeg(g->b, in[0], "");
  case BD_OP_ABS:
    return absolute(g, is_unsigned, in[0]);
  case BD_OP_SIGN:
    return sign(g, is_unsigned, in[0]);
  case BD_OP_MIN:
    return choose(g, compare(g, less, in[0], in[1]), in[0], in[1]);
  case BD_OP_MAX:
    return choose(g, compare(g, less, in[0], in[1]), in[1], in[0]);
  case BD_OP_LT:
    return compare(g, less, in[0], in[1]);
  case BD_OP_LE:
    return compare(g, less_or_equal, in[0], in[1]);
  case BD_OP_EQ:
    return compare(g, LLVMIntEQ, in[0], in[1]);
  case BD_OP_AND:
    return LLVMBuildAnd(g->b, in[0], in[1], "");
  case BD_OP_OR:
    return LLVMBuildOr(g->b, in[0], in[1], "");
  case BD_OP_XOR:
    return LLVMBuildXor(g->b, in[0], in[1], "");
  case BD_OP_NOT:
    return LLVMBuildNot(g->b, in[0], "");
  default:
    return NULL;
  }
}
