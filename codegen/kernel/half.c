// What memory holds and what registers hold. Bools are bytes and single bits. bf16 moves as 16-bit
// integers, the upper half of an f32, so that no target needs a type for it; f16 by the target's
// conversions. Arithmetic of both is in f32.
#include "codegen/kernel/gen.h"

static LLVMValueRef shifted(bd_gen *g, LLVMValueRef bits, LLVMOpcode shift) {
  return LLVMBuildBinOp(g->b, shift, bits, bd_gen_int_like(bits, 16), "");
}

LLVMValueRef bd_gen_widen(bd_gen *g, bd_dtype dtype, LLVMValueRef value) {
  LLVMTypeRef wide = bd_gen_type_like(value, bd_gen_f32(g));
  if (dtype == BD_F16) return LLVMBuildFPExt(g->b, value, wide, "");
  if (dtype == BD_BOOL) return LLVMBuildICmp(g->b, LLVMIntNE, value, bd_gen_int_like(value, 0), "");
  if (dtype != BD_BF16) return value;
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

LLVMValueRef bd_gen_narrow(bd_gen *g, bd_dtype dtype, LLVMValueRef value) {
  LLVMTypeRef stored = bd_gen_type_like(value, bd_gen_dtype(g, dtype));
  if (dtype == BD_BOOL) return LLVMBuildZExt(g->b, value, stored, "");
  if (!bd_dtype_is_float(dtype) || LLVMTypeOf(value) == stored) return value;
  if (dtype != BD_BF16) return LLVMBuildFPTrunc(g->b, value, stored, "");
  return LLVMBuildTrunc(g->b, shifted(g, nearest(g, value), LLVMLShr), stored, "");
}

LLVMValueRef bd_gen_rounded(bd_gen *g, bd_dtype dtype, LLVMValueRef value) {
  if (dtype == BD_F16) return bd_gen_widen(g, dtype, bd_gen_narrow(g, dtype, value));
  if (dtype != BD_BF16) return value;
  LLVMValueRef bits = nearest(g, value);
  bits = LLVMBuildAnd(g->b, bits, bd_gen_int_like(bits, (int32_t)0xffff0000), "");
  return LLVMBuildBitCast(g->b, bits, LLVMTypeOf(value), "");
}
