// What memory holds and what registers hold. Bools are bytes and single bits. bf16 moves as 16-bit
// integers, the upper half of an f32, so that no target needs a type for it; f16 by the target's
// conversions. Arithmetic of both is in f32. GPUs take bf16 two by two, as words of 4 bytes.
#include "codegen/kernel/gen.h"
#include <assert.h>

static LLVMValueRef shifted(bd_gen *g, LLVMValueRef bits, LLVMOpcode shift) {
  return LLVMBuildBinOp(g->b, shift, bits, bd_gen_int_like(bits, 16), "");
}

// Elements that a GPU takes in pairs; 0 of a scalar.
static unsigned paired(const bd_gen *g, LLVMValueRef value) {
  LLVMTypeRef type = LLVMTypeOf(value);
  if (!g->cuda || LLVMGetTypeKind(type) != LLVMVectorTypeKind) return 0;
  assert(LLVMGetVectorSize(type) % 2 == 0);
  return LLVMGetVectorSize(type);
}

// One instruction for each element: of pairs LLVM would take each half out of its word first.
static LLVMValueRef widen_pairs(bd_gen *g, LLVMValueRef value, unsigned count) {
  LLVMValueRef order[BD_GEN_LANES];
  LLVMTypeRef words = LLVMVectorType(bd_gen_i32(g), count / 2);
  LLVMValueRef pairs = LLVMBuildBitCast(g->b, value, words, "");
  LLVMValueRef first = shifted(g, pairs, LLVMShl);
  LLVMValueRef upper = bd_gen_int_like(pairs, (int32_t)0xffff0000);
  LLVMValueRef second = LLVMBuildAnd(g->b, pairs, upper, "");
  for (unsigned i = 0; i < count; i++)
    order[i] = LLVMConstInt(bd_gen_i32(g), i / 2 + i % 2 * (count / 2), false);
  value = LLVMBuildShuffleVector(g->b, first, second, LLVMConstVector(order, count), "");
  return LLVMBuildBitCast(g->b, value, bd_gen_type_like(value, bd_gen_f32(g)), "");
}

LLVMValueRef bd_gen_widen(bd_gen *g, bd_dtype dtype, LLVMValueRef value) {
  LLVMTypeRef wide = bd_gen_type_like(value, bd_gen_f32(g));
  if (dtype == BD_F16) return LLVMBuildFPExt(g->b, value, wide, "");
  if (dtype == BD_BOOL) return LLVMBuildICmp(g->b, LLVMIntNE, value, bd_gen_int_like(value, 0), "");
  if (dtype != BD_BF16) return value;
  unsigned count = paired(g, value);
  if (count) return widen_pairs(g, value, count);
  value = LLVMBuildZExt(g->b, value, bd_gen_type_like(value, bd_gen_i32(g)), "");
  return LLVMBuildBitCast(g->b, shifted(g, value, LLVMShl), wide, "");
}

// The bits of an f32 whose upper half is nearest, ties to even; what carries over becomes infinity,
// and what is no number stays none.
static LLVMValueRef nearest(bd_gen *g, LLVMValueRef x) {
  LLVMTypeRef type = bd_gen_type_like(x, bd_gen_i32(g));
  LLVMValueRef bits = LLVMBuildBitCast(g->b, x, type, "");
  LLVMValueRef odd = shifted(g, bits, LLVMLShr);
  odd = LLVMBuildAnd(g->b, odd, bd_gen_int_like(bits, 1), "");
  LLVMValueRef up = LLVMBuildAdd(g->b, bits, bd_gen_int_like(bits, 0x7fff), "");
  up = LLVMBuildAdd(g->b, up, odd, "");
  LLVMValueRef none = LLVMBuildFCmp(g->b, LLVMRealUNO, x, x, "");
  LLVMValueRef quiet = LLVMBuildOr(g->b, bits, bd_gen_int_like(bits, 0x400000), "");
  return LLVMBuildSelect(g->b, none, quiet, up, "");
}

// A GPU's own conversion rounds alike. What is no number becomes the one NaN it has.
static LLVMValueRef narrow_by_gpu(bd_gen *g, LLVMValueRef value) {
  unsigned count = paired(g, value);
  if (!count) {
    value = bd_gen_intrinsic(g, "llvm.nvvm.f2bf16.rn", 0, NULL, 1, &value);
    return LLVMBuildBitCast(g->b, value, bd_gen_dtype(g, BD_BF16), "");
  }
  LLVMValueRef words = LLVMGetPoison(LLVMVectorType(bd_gen_i32(g), count / 2));
  for (unsigned i = 0; i < count; i += 2) {
    LLVMValueRef upper_first[2];
    for (unsigned k = 0; k < 2; k++) {
      LLVMValueRef at = LLVMConstInt(bd_gen_i32(g), i + 1 - k, false);
      upper_first[k] = LLVMBuildExtractElement(g->b, value, at, "");
    }
    LLVMValueRef pair = bd_gen_intrinsic(g, "llvm.nvvm.ff2bf16x2.rn", 0, NULL, 2, upper_first);
    pair = LLVMBuildBitCast(g->b, pair, bd_gen_i32(g), "");
    LLVMValueRef at = LLVMConstInt(bd_gen_i32(g), i / 2, false);
    words = LLVMBuildInsertElement(g->b, words, pair, at, "");
  }
  return LLVMBuildBitCast(g->b, words, bd_gen_type_like(value, bd_gen_dtype(g, BD_BF16)), "");
}

LLVMValueRef bd_gen_narrow(bd_gen *g, bd_dtype dtype, LLVMValueRef value) {
  LLVMTypeRef stored = bd_gen_type_like(value, bd_gen_dtype(g, dtype));
  if (dtype == BD_BOOL) return LLVMBuildZExt(g->b, value, stored, "");
  if (!bd_dtype_is_float(dtype) || LLVMTypeOf(value) == stored) return value;
  if (dtype != BD_BF16) return LLVMBuildFPTrunc(g->b, value, stored, "");
  // An instruction's result is no constant, as tables need them.
  if (g->cuda && !LLVMIsConstant(value)) return narrow_by_gpu(g, value);
  return LLVMBuildTrunc(g->b, shifted(g, nearest(g, value), LLVMLShr), stored, "");
}

LLVMValueRef bd_gen_rounded(bd_gen *g, bd_dtype dtype, LLVMValueRef value) {
  bool half = dtype == BD_F16 || dtype == BD_BF16;
  if (half && (g->cuda || dtype == BD_F16))
    return bd_gen_widen(g, dtype, bd_gen_narrow(g, dtype, value));
  if (!half) return value;
  LLVMValueRef bits = nearest(g, value);
  bits = LLVMBuildAnd(g->b, bits, bd_gen_int_like(bits, (int32_t)0xffff0000), "");
  return LLVMBuildBitCast(g->b, bits, LLVMTypeOf(value), "");
}
