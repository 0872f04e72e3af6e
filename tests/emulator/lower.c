#include "tests/emulator/lower.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <llvm-c/Error.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHARED_SPACE = 3 };

static const struct {
  const char *intrinsic, *function;
} calls[] = {
    {"llvm.nvvm.read.ptx.sreg.tid.x", "emulate_thread"},
    {"llvm.nvvm.read.ptx.sreg.ntid.x", "emulate_threads"},
    {"llvm.nvvm.read.ptx.sreg.ctaid.x", "emulate_block"},
    {"llvm.nvvm.read.ptx.sreg.nctaid.x", "emulate_blocks"},
    {"llvm.nvvm.barrier0", "emulate_barrier"},
    {"llvm.nvvm.shfl.sync.bfly.i32", "emulate_exchange"},
    {"llvm.nvvm.ex2.approx.ftz.f", "emulate_power_of_two"},
    {"llvm.nvvm.rcp.approx.ftz.f", "emulate_reciprocal"},
    {"llvm.nvvm.rsqrt.approx.ftz.f", "emulate_reciprocal_root"},
};

// What gives bf16, which C has no type for: the functions give its bits.
static const struct {
  const char *intrinsic, *function;
  unsigned bits;
} roundings[] = {
    {"llvm.nvvm.f2bf16.rn", "emulate_round", 16},
    {"llvm.nvvm.ff2bf16x2.rn", "emulate_round_both", 32},
};

// A warp's products of halves: words of both operands and sums, in memory for the emulator.
static const struct {
  const char *intrinsic, *function;
} products[] = {
    {"llvm.nvvm.mma.m16n8k16.row.col.bf16", "emulate_product_bf16"},
    {"llvm.nvvm.mma.m16n8k16.row.col.f32.f32", "emulate_product_f16"},
};

enum {
  CALLS = sizeof calls / sizeof *calls,
  ROUNDINGS = sizeof roundings / sizeof *roundings,
  PRODUCTS = sizeof products / sizeof *products,
  OPERAND_WORDS = 6,
  SUMS = 4,
};

static char *message_of(const char *what, const char *detail) {
  size_t size = strlen(what) + strlen(detail) + 3;
  char *text = malloc(size);
  if (!text) abort();
  snprintf(text, size, "%s: %s", what, detail);
  return text;
}

void emulate_forget(char *message) {
  free(message);
}

// The attributes of an intrinsic promise what a call into the emulator does not keep.
static void make_plain(LLVMValueRef function, const char *name) {
  LLVMTypeRef type = LLVMGlobalGetValueType(function);
  LLVMValueRef plain = LLVMAddFunction(LLVMGetGlobalParent(function), name, type);
  LLVMReplaceAllUsesWith(function, plain);
  LLVMDeleteFunction(function);
}

// What reads a rounded value reads its bits instead: the host has no registers for bf16.
static void read_bits(LLVMBuilderRef b, LLVMValueRef rounded, LLVMValueRef bits) {
  LLVMUseRef next;
  for (LLVMUseRef use = LLVMGetFirstUse(rounded); use; use = next) {
    next = LLVMGetNextUse(use);
    LLVMValueRef user = LLVMGetUser(use);
    if (LLVMIsABitCastInst(user) && LLVMTypeOf(user) == LLVMTypeOf(bits)) {
      LLVMReplaceAllUsesWith(user, bits);
    } else if (LLVMIsAStoreInst(user)) {
      LLVMPositionBuilderBefore(b, user);
      LLVMValueRef store = LLVMBuildStore(b, bits, LLVMGetOperand(user, 1));
      LLVMSetAlignment(store, LLVMGetAlignment(user));
    } else {
      continue;
    }
    LLVMInstructionEraseFromParent(user);
  }
}

static char *replace_rounding(LLVMModuleRef module, LLVMValueRef intrinsic, size_t rounding) {
  LLVMContextRef llvm = LLVMGetModuleContext(module);
  LLVMBuilderRef b = LLVMCreateBuilderInContext(llvm);
  unsigned operands = LLVMCountParams(intrinsic);
  LLVMTypeRef reals[2] = {LLVMFloatTypeInContext(llvm), LLVMFloatTypeInContext(llvm)};
  LLVMTypeRef bits = LLVMIntTypeInContext(llvm, roundings[rounding].bits);
  LLVMTypeRef type = LLVMFunctionType(bits, reals, operands, 0);
  LLVMValueRef function = LLVMAddFunction(module, roundings[rounding].function, type);
  char *message = NULL;
  for (LLVMUseRef use; !message && (use = LLVMGetFirstUse(intrinsic));) {
    LLVMValueRef call = LLVMGetUser(use), arguments[2];
    for (unsigned k = 0; k < operands; k++)
      arguments[k] = LLVMGetOperand(call, k);
    LLVMPositionBuilderBefore(b, call);
    read_bits(b, call, LLVMBuildCall2(b, type, function, arguments, operands, ""));
    if (LLVMGetFirstUse(call))
      message = message_of("the emulator knows no such use of", roundings[rounding].intrinsic);
    else
      LLVMInstructionEraseFromParent(call);
  }
  LLVMDisposeBuilder(b);
  if (!message) LLVMDeleteFunction(intrinsic);
  return message;
}

// Where a function keeps the words of its products.
static LLVMValueRef words_of(LLVMBuilderRef b, LLVMValueRef call, LLVMTypeRef type) {
  LLVMValueRef function = LLVMGetBasicBlockParent(LLVMGetInstructionParent(call));
  LLVMPositionBuilderBefore(b, LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(function)));
  return LLVMBuildAlloca(b, type, "");
}

static void replace_product(LLVMBuilderRef b, LLVMValueRef call, LLVMValueRef function,
                            unsigned place) {
  LLVMContextRef llvm = LLVMGetTypeContext(LLVMTypeOf(call));
  LLVMTypeRef word = LLVMInt32TypeInContext(llvm), real = LLVMFloatTypeInContext(llvm);
  LLVMTypeRef type = LLVMArrayType2(word, OPERAND_WORDS + SUMS);
  LLVMValueRef words = words_of(b, call, type), at[OPERAND_WORDS + SUMS];
  LLVMPositionBuilderBefore(b, call);
  for (unsigned i = 0; i < OPERAND_WORDS + SUMS; i++) {
    LLVMValueRef index = LLVMConstInt(word, i, 0);
    at[i] = LLVMBuildGEP2(b, word, words, &index, 1, "");
    LLVMBuildStore(b, LLVMGetOperand(call, i), at[i]);
  }
  LLVMValueRef arguments[] = {words, LLVMConstInt(word, place, 0)};
  LLVMBuildCall2(b, LLVMGlobalGetValueType(function), function, arguments, 2, "");
  LLVMValueRef result = LLVMGetPoison(LLVMTypeOf(call));
  for (unsigned i = 0; i < SUMS; i++) {
    LLVMValueRef sum = LLVMBuildLoad2(b, real, at[OPERAND_WORDS + i], "");
    result = LLVMBuildInsertValue(b, result, sum, i, "");
  }
  LLVMReplaceAllUsesWith(call, result);
  LLVMInstructionEraseFromParent(call);
}

static void replace_products(LLVMModuleRef module, LLVMValueRef intrinsic, const char *name) {
  LLVMContextRef llvm = LLVMGetModuleContext(module);
  LLVMBuilderRef b = LLVMCreateBuilderInContext(llvm);
  LLVMTypeRef types[] = {LLVMPointerTypeInContext(llvm, 0), LLVMInt32TypeInContext(llvm)};
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(llvm), types, 2, 0);
  LLVMValueRef function = LLVMAddFunction(module, name, type);
  unsigned place = 0;
  for (LLVMUseRef use; (use = LLVMGetFirstUse(intrinsic));)
    replace_product(b, LLVMGetUser(use), function, place++);
  LLVMDisposeBuilder(b);
  LLVMDeleteFunction(intrinsic);
}

// Numbers the exchanges, in the place of the bounds of lanes, a whole warp's in all of them.
static char *number_exchanges(LLVMModuleRef module) {
  enum { BOUNDS = 3, WHOLE_WARP = 31 };
  LLVMValueRef exchange = LLVMGetNamedFunction(module, "llvm.nvvm.shfl.sync.bfly.i32");
  unsigned place = 0;
  for (LLVMUseRef use = exchange ? LLVMGetFirstUse(exchange) : NULL; use;) {
    LLVMValueRef call = LLVMGetUser(use), bounds = LLVMGetOperand(call, BOUNDS);
    use = LLVMGetNextUse(use);
    if (!LLVMIsAConstantInt(bounds) || LLVMConstIntGetZExtValue(bounds) != WHOLE_WARP)
      return message_of("the emulator knows no such bounds of", "llvm.nvvm.shfl.sync.bfly.i32");
    LLVMSetOperand(call, BOUNDS, LLVMConstInt(LLVMTypeOf(bounds), place++, 0));
  }
  return NULL;
}

static char *replace_intrinsics(LLVMModuleRef module) {
  LLVMValueRef next;
  for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = next) {
    next = LLVMGetNextFunction(f);
    size_t length;
    const char *name = LLVMGetValueName2(f, &length);
    if (strncmp(name, "llvm.nvvm.", 10) != 0) continue;
    size_t i = 0, k = 0, p = 0;
    while (i < CALLS && strcmp(calls[i].intrinsic, name) != 0)
      i++;
    while (k < ROUNDINGS && strcmp(roundings[k].intrinsic, name) != 0)
      k++;
    while (p < PRODUCTS && strcmp(products[p].intrinsic, name) != 0)
      p++;
    if (i == CALLS && k == ROUNDINGS && p == PRODUCTS)
      return message_of("the emulator lacks", name);
    char *message = NULL;
    if (i < CALLS)
      make_plain(f, calls[i].function);
    else if (p < PRODUCTS)
      replace_products(module, f, products[p].function);
    else
      message = replace_rounding(module, f, k);
    if (message) return message;
  }
  return NULL;
}

static void make_host_functions(LLVMModuleRef module) {
  unsigned by_value = LLVMGetEnumAttributeKindForName("byval", 5);
  for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f)) {
    if (LLVMGetFunctionCallConv(f) != LLVMPTXKernelCallConv) continue;
    LLVMSetFunctionCallConv(f, LLVMCCallConv);
    for (unsigned i = 1; i <= LLVMCountParams(f); i++)
      LLVMRemoveEnumAttributeAtIndex(f, i, by_value);
  }
}

static LLVMValueRef not_a_number(LLVMTypeRef type) {
  if (LLVMGetTypeKind(type) != LLVMArrayTypeKind) return LLVMConstReal(type, 0.0 / 0.0);
  unsigned count = (unsigned)LLVMGetArrayLength2(type);
  LLVMTypeRef element = LLVMGetElementType(type);
  LLVMValueRef *values = calloc(count + 1, sizeof *values), each = not_a_number(element);
  if (!values) abort();
  for (unsigned i = 0; i < count; i++)
    values[i] = each;
  LLVMValueRef array = LLVMConstArray2(element, values, count);
  free(values);
  return array;
}

static void spoil_shared_memory(LLVMModuleRef module) {
  for (LLVMValueRef g = LLVMGetFirstGlobal(module); g; g = LLVMGetNextGlobal(g))
    if (LLVMGetPointerAddressSpace(LLVMTypeOf(g)) == SHARED_SPACE)
      LLVMSetInitializer(g, not_a_number(LLVMGlobalGetValueType(g)));
}

// Gathers in `odd` the bits of an access's address that a multiple of its width has not. The host
// reads and writes there all the same.
static void watch_address(LLVMBuilderRef b, LLVMTypeRef word, LLVMValueRef access,
                          LLVMValueRef odd) {
  const unsigned alignment = LLVMGetAlignment(access);
  const unsigned operand = LLVMGetInstructionOpcode(access) == LLVMStore;
  LLVMPositionBuilderBefore(b, access);
  LLVMValueRef address = LLVMBuildPtrToInt(b, LLVMGetOperand(access, operand), word, "");
  LLVMValueRef bits = LLVMBuildAnd(b, address, LLVMConstInt(word, alignment - 1, 0), "");
  bits = LLVMBuildOr(b, LLVMBuildLoad2(b, word, odd, ""), bits, "");
  LLVMBuildStore(b, bits, odd);
  LLVMSetAlignment(access, 1);
}

// Looks at them where the thread ends.
static void judge(LLVMBuilderRef b, LLVMTypeRef word, LLVMValueRef end, LLVMValueRef odd,
                  LLVMValueRef judge_addresses) {
  LLVMPositionBuilderBefore(b, end);
  LLVMValueRef bits = LLVMBuildLoad2(b, word, odd, "");
  LLVMBuildCall2(b, LLVMGlobalGetValueType(judge_addresses), judge_addresses, &bits, 1, "");
}

static void watch_addresses(LLVMValueRef function, LLVMTypeRef word, LLVMValueRef judge_addresses) {
  LLVMBuilderRef b = LLVMCreateBuilderInContext(LLVMGetTypeContext(word));
  const LLVMBasicBlockRef entry = LLVMGetEntryBasicBlock(function);
  LLVMValueRef first = LLVMGetFirstInstruction(entry), next;
  LLVMPositionBuilderBefore(b, first);
  LLVMValueRef odd = LLVMBuildAlloca(b, word, "");
  LLVMBuildStore(b, LLVMConstInt(word, 0, 0), odd);
  for (LLVMBasicBlockRef block = entry; block; block = LLVMGetNextBasicBlock(block))
    for (LLVMValueRef i = block == entry ? first : LLVMGetFirstInstruction(block); i; i = next) {
      next = LLVMGetNextInstruction(i);
      if (LLVMGetInstructionOpcode(i) == LLVMRet)
        judge(b, word, i, odd, judge_addresses);
      else if (LLVMIsALoadInst(i) || LLVMIsAStoreInst(i))
        watch_address(b, word, i, odd);
    }
  LLVMDisposeBuilder(b);
}

// A GPU ends the work of a kernel that reads or writes at an address that is no multiple of what it
// reads or writes at once.
static void watch_all_addresses(LLVMModuleRef module) {
  LLVMContextRef llvm = LLVMGetModuleContext(module);
  LLVMTypeRef word = LLVMInt64TypeInContext(llvm);
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(llvm), &word, 1, 0);
  LLVMValueRef judge_addresses = LLVMAddFunction(module, "emulate_judge_addresses", type);
  for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f))
    if (!LLVMIsDeclaration(f)) watch_addresses(f, word, judge_addresses);
}

// What accesses leave in `odd` is kept in a register, and asked once where they have one address.
static char *keep_in_registers(LLVMModuleRef module, LLVMTargetMachineRef machine) {
  LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
  LLVMErrorRef error = LLVMRunPasses(module, "function(sroa,early-cse)", machine, options);
  LLVMDisposePassBuilderOptions(options);
  if (!error) return NULL;
  char *detail = LLVMGetErrorMessage(error), *message = message_of("LLVM's passes", detail);
  LLVMDisposeErrorMessage(detail);
  return message;
}

static char *write_object(LLVMModuleRef module, const char *object_path) {
  const char *triple = "x86_64-pc-linux-gnu";
  char *detail = NULL;
  LLVMTargetRef target;
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
  if (LLVMGetTargetFromTriple(triple, &target, &detail)) return detail;
  LLVMTargetMachineRef machine = LLVMCreateTargetMachine(
      target, triple, "x86-64-v3", "", LLVMCodeGenLevelNone, LLVMRelocPIC, LLVMCodeModelDefault);
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
  LLVMSetModuleDataLayout(module, layout);
  LLVMDisposeTargetData(layout);
  LLVMSetTarget(module, triple);
  char *message = NULL, *path = strdup(object_path);
  if (!path) abort();
  if (LLVMVerifyModule(module, LLVMReturnStatusAction, &detail))
    message = message_of("the lowered kernels are malformed", detail);
  LLVMDisposeMessage(detail);
  detail = NULL;
  if (!message) message = keep_in_registers(module, machine);
  if (!message && LLVMTargetMachineEmitToFile(machine, module, path, LLVMObjectFile, &detail))
    message = message_of(object_path, detail);
  LLVMDisposeMessage(detail);
  LLVMDisposeTargetMachine(machine);
  free(path);
  return message;
}

static char *lower(LLVMModuleRef module, const char *object_path) {
  char *message = number_exchanges(module);
  if (!message) message = replace_intrinsics(module);
  if (message) return message;
  make_host_functions(module);
  spoil_shared_memory(module);
  watch_all_addresses(module);
  return write_object(module, object_path);
}

char *emulate_lower(const char *text_path, const char *object_path) {
  LLVMContextRef llvm = LLVMContextCreate();
  LLVMMemoryBufferRef buffer;
  LLVMModuleRef module;
  char *detail = NULL, *message = NULL;
  if (LLVMCreateMemoryBufferWithContentsOfFile(text_path, &buffer, &detail)) {
    message = message_of(text_path, detail);
    LLVMDisposeMessage(detail);
  } else if (LLVMParseIRInContext(llvm, buffer, &module, &detail)) { // takes the buffer
    message = message_of(text_path, detail);
    LLVMDisposeMessage(detail);
  } else {
    message = lower(module, object_path);
    LLVMDisposeModule(module);
  }
  LLVMContextDispose(llvm);
  return message;
}
