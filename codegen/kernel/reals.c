// The arithmetic of pointwise ops on f32 and f64.
#include "codegen/kernel/gen.h"
#include <math.h>

#define GELU_ROOT 0.79788456080286536 // sqrt(2 / pi)
#define GELU_CUBE 0.044715

static LLVMValueRef mul(bd_gen *g, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildFMul(g->b, a, b, "");
}

static LLVMValueRef scaled(bd_gen *g, LLVMValueRef a, double factor) {
  return mul(g, a, bd_gen_real_like(a, factor));
}

static LLVMValueRef plus(bd_gen *g, LLVMValueRef a, double addend) {
  return LLVMBuildFAdd(g->b, a, bd_gen_real_like(a, addend), "");
}

static LLVMValueRef one_minus(bd_gen *g, LLVMValueRef a) {
  return LLVMBuildFSub(g->b, bd_gen_real_like(a, 1.0), a, "");
}

static LLVMValueRef positive(bd_gen *g, LLVMValueRef x, LLVMValueRef value) {
  LLVMValueRef zero = bd_gen_real_like(x, 0.0);
  LLVMValueRef not_positive = LLVMBuildFCmp(g->b, LLVMRealOLE, x, zero, "");
  return LLVMBuildSelect(g->b, not_positive, zero, value, "");
}

// (1 + tanh(u)) / 2 = sigmoid(2u), with u = sqrt(2/pi) (x + 0.044715 x^3).
static LLVMValueRef gelu_gate(bd_gen *g, LLVMValueRef x, LLVMValueRef square) {
  LLVMValueRef inner =
      bd_gen_fma(g, square, bd_gen_real_like(x, GELU_CUBE), bd_gen_real_like(x, 1.0));
  return bd_gen_sigmoid(g, mul(g, scaled(g, x, 2.0 * GELU_ROOT), inner));
}

static LLVMValueRef gelu(bd_gen *g, LLVMValueRef x, LLVMValueRef dy) {
  LLVMValueRef square = mul(g, x, x), gate = gelu_gate(g, x, square);
  if (!dy) return mul(g, x, gate);
  LLVMValueRef slope = bd_gen_fma(g, square, bd_gen_real_like(x, 6.0 * GELU_ROOT * GELU_CUBE),
                                  bd_gen_real_like(x, 2.0 * GELU_ROOT));
  LLVMValueRef bell = mul(g, mul(g, gate, one_minus(g, gate)), x);
  return mul(g, dy, bd_gen_fma(g, bell, slope, gate));
}

static LLVMValueRef gelu_erf(bd_gen *g, LLVMValueRef x, LLVMValueRef dy) {
  LLVMValueRef normal = scaled(g, plus(g, bd_gen_erf(g, scaled(g, x, M_SQRT1_2)), 1.0), 0.5);
  if (!dy) return mul(g, x, normal);
  LLVMValueRef density = bd_gen_exp(g, mul(g, x, scaled(g, x, -0.5)));
  density = scaled(g, density, 0.39894228040143268); // 1 / sqrt(2 pi)
  return mul(g, dy, bd_gen_fma(g, x, density, normal));
}

static LLVMValueRef silu(bd_gen *g, LLVMValueRef x, LLVMValueRef dy) {
  LLVMValueRef s = bd_gen_sigmoid(g, x);
  if (!dy) return mul(g, x, s);
  LLVMValueRef slope = bd_gen_fma(g, x, one_minus(g, s), bd_gen_real_like(x, 1.0));
  return mul(g, dy, mul(g, s, slope));
}

static LLVMValueRef sign(bd_gen *g, LLVMValueRef x) {
  LLVMValueRef zero = bd_gen_real_like(x, 0.0);
  LLVMValueRef above = LLVMBuildFCmp(g->b, LLVMRealOGT, x, zero, "");
  LLVMValueRef below = LLVMBuildFCmp(g->b, LLVMRealOLT, x, zero, "");
  LLVMValueRef y = LLVMBuildSelect(g->b, below, bd_gen_real_like(x, -1.0), x, "");
  return LLVMBuildSelect(g->b, above, bd_gen_real_like(x, 1.0), y, "");
}

// a where it is beyond b or no number, else b.
static LLVMValueRef extreme(bd_gen *g, LLVMRealPredicate beyond, LLVMValueRef a, LLVMValueRef b) {
  LLVMValueRef first = LLVMBuildFCmp(g->b, beyond, a, b, "");
  LLVMValueRef none = LLVMBuildFCmp(g->b, LLVMRealUNO, a, a, "");
  return LLVMBuildSelect(g->b, LLVMBuildOr(g->b, first, none, ""), a, b, "");
}

LLVMValueRef bd_gen_reals(bd_gen *g, const bd_op *op, const LLVMValueRef *in) {
  LLVMValueRef x = in[0], sine, cosine;
  switch (op->kind) {
  case BD_OP_ADD:
    return LLVMBuildFAdd(g->b, x, in[1], "");
  case BD_OP_SUB:
    return LLVMBuildFSub(g->b, x, in[1], "");
  case BD_OP_MUL:
    return mul(g, x, in[1]);
  case BD_OP_DIV:
    return LLVMBuildFDiv(g->b, x, in[1], "");
  case BD_OP_TRACK:
    return in[1];
  case BD_OP_NEG:
    return LLVMBuildFNeg(g->b, x, "");
  case BD_OP_SCALE:
    return scaled(g, x, bd_op_real(op, "value", 1.0));
  case BD_OP_OFFSET:
    return plus(g, x, bd_op_real(op, "value", 0.0));
  case BD_OP_EXP:
    return bd_gen_exp(g, x);
  case BD_OP_LOG:
    return bd_gen_log(g, x);
  case BD_OP_SQRT:
    return bd_gen_sqrt(g, x);
  case BD_OP_TANH:
    return bd_gen_tanh(g, x);
  case BD_OP_SIGMOID:
    return bd_gen_sigmoid(g, x);
  case BD_OP_RELU:
    return positive(g, x, x);
  case BD_OP_RELU_GRAD:
    return positive(g, x, in[1]);
  case BD_OP_GELU:
    return gelu(g, x, NULL);
  case BD_OP_GELU_GRAD:
    return gelu(g, x, in[1]);
  case BD_OP_GELU_ERF:
    return gelu_erf(g, x, NULL);
  case BD_OP_GELU_ERF_GRAD:
    return gelu_erf(g, x, in[1]);
  case BD_OP_SILU:
    return silu(g, x, NULL);
  case BD_OP_SILU_GRAD:
    return silu(g, x, in[1]);
  case BD_OP_ABS:
    return bd_gen_unary(g, "llvm.fabs", x);
  case BD_OP_SIGN:
    return sign(g, x);
  case BD_OP_FLOOR:
    return bd_gen_unary(g, "llvm.floor", x);
  case BD_OP_CEIL:
    return bd_gen_unary(g, "llvm.ceil", x);
  case BD_OP_ROUND:
    return bd_gen_unary(g, "llvm.rint", x);
  case BD_OP_SIN:
  case BD_OP_COS:
    bd_gen_sincos(g, x, &sine, &cosine);
    return op->kind == BD_OP_SIN ? sine : cosine;
  case BD_OP_ERF:
    return bd_gen_erf(g, x);
  case BD_OP_POW:
    return bd_gen_pow(g, x, in[1]);
  case BD_OP_MOD:
    return bd_gen_remainder(g, x, in[1], !bd_op_int(op, "fmod", 0));
  case BD_OP_MIN:
    return extreme(g, LLVMRealOLT, x, in[1]);
  case BD_OP_MAX:
    return extreme(g, LLVMRealOGT, x, in[1]);
  case BD_OP_LT:
    return LLVMBuildFCmp(g->b, LLVMRealOLT, x, in[1], "");
  case BD_OP_LE:
    return LLVMBuildFCmp(g->b, LLVMRealOLE, x, in[1], "");
  case BD_OP_EQ:
    return LLVMBuildFCmp(g->b, LLVMRealOEQ, x, in[1], "");
  default:
    return NULL;
  }
}
