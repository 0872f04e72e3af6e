// Types, constants, loops and branches.
#include "codegen/kernel/gen.h"
#include <assert.h>
#include <llvm-c/DebugInfo.h>
#include <string.h>

LLVMTypeRef bd_gen_f32(bd_gen *g) {
  return LLVMFloatTypeInContext(g->llvm);
}
LLVMTypeRef bd_gen_f64(bd_gen *g) {
  return LLVMDoubleTypeInContext(g->llvm);
}
LLVMTypeRef bd_gen_i32(bd_gen *g) {
  return LLVMInt32TypeInContext(g->llvm);
}
LLVMTypeRef bd_gen_i64(bd_gen *g) {
  return LLVMInt64TypeInContext(g->llvm);
}

LLVMTypeRef bd_gen_dtype(bd_gen *g, bd_dtype dtype) {
  switch (dtype) {
  case BD_BF16:
    return LLVMInt16TypeInContext(g->llvm);
  case BD_F16:
    return LLVMHalfTypeInContext(g->llvm);
  case BD_F64:
    return bd_gen_f64(g);
  case BD_I32:
    return bd_gen_i32(g);
  case BD_I64:
  case BD_U64:
    return bd_gen_i64(g);
  case BD_U32:
    return bd_gen_i32(g);
  case BD_I16:
  case BD_U16:
    return LLVMInt16TypeInContext(g->llvm);
  case BD_BOOL:
  case BD_U8:
  case BD_I8:
    return LLVMInt8TypeInContext(g->llvm);
  default:
    return bd_gen_f32(g);
  }
}

LLVMTypeRef bd_gen_type(bd_gen *g, LLVMTypeRef scalar) {
  return g->lanes == 1 ? scalar : LLVMVectorType(scalar, (unsigned)g->lanes);
}

static bool is_vector(LLVMValueRef value) {
  return LLVMGetTypeKind(LLVMTypeOf(value)) == LLVMVectorTypeKind;
}

LLVMTypeRef bd_gen_scalar_of(LLVMValueRef value) {
  LLVMTypeRef type = LLVMTypeOf(value);
  return is_vector(value) ? LLVMGetElementType(type) : type;
}

LLVMTypeRef bd_gen_type_like(LLVMValueRef like, LLVMTypeRef scalar) {
  if (!is_vector(like)) return scalar;
  return LLVMVectorType(scalar, LLVMGetVectorSize(LLVMTypeOf(like)));
}

static LLVMValueRef constant_like(LLVMValueRef like, LLVMValueRef scalar) {
  if (!is_vector(like)) return scalar;
  LLVMValueRef lanes[BD_GEN_LANES];
  unsigned count = LLVMGetVectorSize(LLVMTypeOf(like));
  assert(count <= BD_GEN_LANES);
  for (unsigned i = 0; i < count; i++)
    lanes[i] = scalar;
  return LLVMConstVector(lanes, count);
}

LLVMValueRef bd_gen_real_like(LLVMValueRef like, double value) {
  return constant_like(like, LLVMConstReal(bd_gen_scalar_of(like), value));
}

LLVMValueRef bd_gen_int_like(LLVMValueRef like, int64_t value) {
  return constant_like(like, LLVMConstInt(bd_gen_scalar_of(like), (unsigned long long)value, true));
}

LLVMValueRef bd_gen_long(bd_gen *g, int64_t value) {
  return LLVMConstInt(bd_gen_i64(g), (unsigned long long)value, true);
}

static LLVMValueRef spread(bd_gen *g, LLVMValueRef scalar, unsigned lanes) {
  LLVMTypeRef type = LLVMVectorType(LLVMTypeOf(scalar), lanes);
  LLVMTypeRef mask = LLVMVectorType(bd_gen_i32(g), lanes);
  LLVMValueRef one = LLVMBuildInsertElement(g->b, LLVMGetPoison(type), scalar,
                                            LLVMConstInt(bd_gen_i32(g), 0, false), "");
  return LLVMBuildShuffleVector(g->b, one, LLVMGetPoison(type), LLVMConstNull(mask), "");
}

LLVMValueRef bd_gen_splat(bd_gen *g, LLVMValueRef scalar) {
  if (g->lanes == 1 || is_vector(scalar)) return scalar;
  return spread(g, scalar, (unsigned)g->lanes);
}

LLVMValueRef bd_gen_splat_like(bd_gen *g, LLVMValueRef like, LLVMValueRef scalar) {
  return is_vector(like) ? spread(g, scalar, LLVMGetVectorSize(LLVMTypeOf(like))) : scalar;
}

LLVMValueRef bd_gen_real(bd_gen *g, double value) {
  return bd_gen_splat(g, LLVMConstReal(bd_gen_f32(g), value));
}

LLVMValueRef bd_gen_intrinsic(bd_gen *g, const char *name, int type_count, LLVMTypeRef *types,
                              int count, LLVMValueRef *arguments) {
  unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
  assert(id);
  LLVMValueRef function =
      LLVMGetIntrinsicDeclaration(g->set->module, id, types, (size_t)type_count);
  LLVMTypeRef type = LLVMIntrinsicGetType(g->llvm, id, types, (size_t)type_count);
  return LLVMBuildCall2(g->b, type, function, arguments, (unsigned)count, "");
}

LLVMValueRef bd_gen_unary(bd_gen *g, const char *name, LLVMValueRef x) {
  LLVMTypeRef type = LLVMTypeOf(x);
  return bd_gen_intrinsic(g, name, 1, &type, 1, &x);
}

LLVMValueRef bd_gen_copysign(bd_gen *g, LLVMValueRef magnitude, LLVMValueRef sign) {
  LLVMTypeRef type = LLVMTypeOf(magnitude);
  return bd_gen_intrinsic(g, "llvm.copysign", 1, &type, 2, (LLVMValueRef[]){magnitude, sign});
}

LLVMValueRef bd_gen_fma(bd_gen *g, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
  LLVMTypeRef type = LLVMTypeOf(a);
  return bd_gen_intrinsic(g, "llvm.fma", 1, &type, 3, (LLVMValueRef[]){a, b, c});
}

LLVMValueRef bd_gen_poly(bd_gen *g, LLVMValueRef x, int count, const double *coefficients) {
  LLVMValueRef y = bd_gen_real_like(x, coefficients[0]);
  for (int i = 1; i < count; i++)
    y = bd_gen_fma(g, y, x, bd_gen_real_like(x, coefficients[i]));
  return y;
}

LLVMValueRef bd_gen_variable(bd_gen *g, LLVMTypeRef type) {
  LLVMBasicBlockRef here = LLVMGetInsertBlock(g->b);
  LLVMBasicBlockRef entry = LLVMGetEntryBasicBlock(g->function);
  LLVMValueRef first = LLVMGetFirstInstruction(entry);
  if (first)
    LLVMPositionBuilderBefore(g->b, first);
  else
    LLVMPositionBuilderAtEnd(g->b, entry);
  LLVMValueRef variable = LLVMBuildAlloca(g->b, type, "");
  LLVMPositionBuilderAtEnd(g->b, here);
  return variable;
}

static LLVMBasicBlockRef block(bd_gen *g, const char *name) {
  LLVMValueRef function = LLVMGetBasicBlockParent(LLVMGetInsertBlock(g->b));
  return LLVMAppendBasicBlockInContext(g->llvm, function, name);
}

bd_gen_for bd_gen_for_begin(bd_gen *g, LLVMValueRef from, LLVMValueRef to, LLVMValueRef step) {
  bd_gen_for loop = {.step = step};
  LLVMBasicBlockRef before = LLVMGetInsertBlock(g->b);
  loop.head = block(g, "head");
  LLVMBasicBlockRef body = block(g, "body");
  loop.exit = block(g, "exit");
  LLVMBuildBr(g->b, loop.head);
  LLVMPositionBuilderAtEnd(g->b, loop.head);
  loop.index = LLVMBuildPhi(g->b, bd_gen_i64(g), "i");
  LLVMAddIncoming(loop.index, &from, &before, 1);
  LLVMValueRef more = LLVMBuildICmp(g->b, LLVMIntSLT, loop.index, to, "");
  LLVMBuildCondBr(g->b, more, body, loop.exit);
  LLVMPositionBuilderAtEnd(g->b, body);
  return loop;
}

// A word for LLVM about a loop, with a number if that is not 0.
static LLVMMetadataRef hint(bd_gen *g, const char *word, int number) {
  LLVMValueRef value = LLVMConstInt(bd_gen_i32(g), (unsigned long long)number, false);
  LLVMMetadataRef what[] = {LLVMMDStringInContext2(g->llvm, word, strlen(word)),
                            LLVMValueAsMetadata(value)};
  return LLVMMDNodeInContext2(g->llvm, what, number ? 2 : 1);
}

// How the loop that ends in `branch` is compiled. Its name is its own first operand.
static void set_hints(bd_gen *g, LLVMValueRef branch) {
  LLVMMetadataRef hints[3];
  size_t count = 1;
  if (g->rolled)
    hints[count++] = hint(g, "llvm.loop.unroll.disable", 0);
  else if (g->copies)
    hints[count++] = hint(g, "llvm.loop.unroll.count", g->copies);
  if (g->apart) hints[count++] = hint(g, "llvm.licm.disable", 0);
  if (count == 1) return;
  LLVMMetadataRef self = hints[0] = LLVMTemporaryMDNode(g->llvm, NULL, 0);
  LLVMMetadataRef node = LLVMMDNodeInContext2(g->llvm, hints, count);
  LLVMMetadataReplaceAllUsesWith(self, node);
  LLVMSetMetadata(branch, LLVMGetMDKindIDInContext(g->llvm, "llvm.loop", 9),
                  LLVMMetadataAsValue(g->llvm, node));
}

void bd_gen_for_end(bd_gen *g, bd_gen_for *loop) {
  LLVMValueRef next = LLVMBuildNSWAdd(g->b, loop->index, loop->step, "");
  LLVMBasicBlockRef latch = LLVMGetInsertBlock(g->b);
  LLVMValueRef back = LLVMBuildBr(g->b, loop->head);
  set_hints(g, back);
  g->copies = 0;
  g->apart = false;
  LLVMAddIncoming(loop->index, &next, &latch, 1);
  LLVMPositionBuilderAtEnd(g->b, loop->exit);
}

bd_gen_if bd_gen_if_begin(bd_gen *g, LLVMValueRef condition) {
  LLVMBasicBlockRef then = block(g, "then");
  bd_gen_if branch = {.exit = block(g, "after")};
  LLVMBuildCondBr(g->b, condition, then, branch.exit);
  LLVMPositionBuilderAtEnd(g->b, then);
  return branch;
}

void bd_gen_if_end(bd_gen *g, bd_gen_if *branch) {
  LLVMBuildBr(g->b, branch->exit);
  LLVMPositionBuilderAtEnd(g->b, branch->exit);
}

void bd_gen_barrier(bd_gen *g) {
  bd_gen_intrinsic(g, "llvm.nvvm.barrier0", 0, NULL, 0, NULL);
}

LLVMValueRef bd_gen_shared(bd_gen *g, const char *what, LLVMTypeRef type, int count) {
  enum { SHARED_SPACE = 3, ALIGNMENT = 16 };
  LLVMTypeRef array = LLVMArrayType2(type, (uint64_t)count);
  const char *name = bd_intern_f(g->ctx, "bdk_%d_%s", g->number, what);
  LLVMValueRef memory = LLVMAddGlobalInAddressSpace(g->set->module, array, name, SHARED_SPACE);
  LLVMSetInitializer(memory, LLVMGetUndef(array));
  LLVMSetLinkage(memory, LLVMInternalLinkage);
  LLVMSetAlignment(memory, ALIGNMENT);
  return memory;
}
