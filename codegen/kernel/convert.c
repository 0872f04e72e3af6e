// Numbers of one type as numbers of another.
#include "codegen/kernel/gen.h"

LLVMTypeRef bd_gen_register(bd_gen *g, bd_dtype dtype) {
  if (dtype == BD_BOOL) return LLVMInt1TypeInContext(g->llvm);
  return bd_gen_dtype(g, bd_dtype_wide(dtype));
}

LLVMValueRef bd_gen_constant(bd_gen *g, const bd_attr *attr, int i, bd_dtype dtype) {
  bool list = attr->kind == BD_ATTR_INTS || attr->kind == BD_ATTR_REALS;
  bool is_real = attr->kind == BD_ATTR_REAL || attr->kind == BD_ATTR_REALS;
  LLVMTypeRef type = bd_gen_register(g, dtype);
  double real = !is_real ? 0 : list ? attr->reals[i] : attr->real;
  int64_t integer = is_real ? 0 : list ? attr->ints[i] : attr->integer;
  if (bd_dtype_is_float(dtype))
    return LLVMConstReal(type, bd_dtype_round(dtype, is_real ? real : (double)integer));
  if (is_real) integer = (int64_t)real;
  return LLVMConstInt(type, (unsigned long long)integer, true);
}

LLVMValueRef bd_gen_index(bd_gen *g, LLVMValueRef x) {
  return LLVMBuildSExt(g->b, x, bd_gen_type_like(x, bd_gen_i64(g)), "");
}

static LLVMValueRef from_real(bd_gen *g, bd_dtype to, LLVMTypeRef type, LLVMValueRef x) {
  if (bd_dtype_is_float(to)) return LLVMBuildFPCast(g->b, x, type, "");
  if (to == BD_BOOL) return LLVMBuildFCmp(g->b, LLVMRealUNE, x, bd_gen_real_like(x, 0.0), "");
  bool wide = to == BD_U32 || bd_dtype_bytes(to) == 8;
  LLVMTypeRef first = bd_gen_type_like(x, wide ? bd_gen_i64(g) : bd_gen_i32(g));
  const char *name = to == BD_U64 ? "llvm.fptoui.sat" : "llvm.fptosi.sat";
  x = bd_gen_intrinsic(g, name, 2, (LLVMTypeRef[]){first, LLVMTypeOf(x)}, 1, &x);
  return LLVMBuildIntCast2(g->b, x, type, true, "");
}

LLVMValueRef bd_gen_cast(bd_gen *g, bd_dtype from, bd_dtype to, LLVMValueRef x) {
  LLVMTypeRef type = bd_gen_type_like(x, bd_gen_register(g, to));
  if (bd_dtype_is_float(from)) return from_real(g, to, type, x);
  bool has_sign = bd_dtype_class_of(from) == BD_INTEGERS && !bd_dtype_is_unsigned(from);
  if (bd_dtype_is_float(to))
    return has_sign ? LLVMBuildSIToFP(g->b, x, type, "") : LLVMBuildUIToFP(g->b, x, type, "");
  if (to == BD_BOOL) return LLVMBuildICmp(g->b, LLVMIntNE, x, bd_gen_int_like(x, 0), "");
  return LLVMBuildIntCast2(g->b, x, type, has_sign, "");
}

LLVMValueRef bd_gen_arithmetic(bd_gen *g, const bd_op *op, bd_dtype dtype, const LLVMValueRef *in) {
  if (op->kind == BD_OP_SELECT) return LLVMBuildSelect(g->b, in[0], in[1], in[2], "");
  if (bd_dtype_is_float(dtype)) return bd_gen_reals(g, op, in);
  return bd_gen_whole(g, op, dtype == BD_BOOL || bd_dtype_is_unsigned(dtype), in);
}
