// Philox4x32-10 in lanes: the bits of bd_random_uniform (ir/random.c).
#include "codegen/kernel/gen.h"

typedef struct product {
  LLVMValueRef high, low;
} product;

static product multiply(bd_gen *g, LLVMValueRef x, uint32_t multiplier) {
  LLVMTypeRef wide = bd_gen_type_like(x, bd_gen_i64(g));
  LLVMValueRef w = LLVMBuildZExt(g->b, x, wide, "");
  w = LLVMBuildMul(g->b, w, bd_gen_int_like(w, multiplier), "");
  LLVMValueRef high = LLVMBuildLShr(g->b, w, bd_gen_int_like(w, 32), "");
  return (product){LLVMBuildTrunc(g->b, high, LLVMTypeOf(x), ""),
                   LLVMBuildTrunc(g->b, w, LLVMTypeOf(x), "")};
}

static LLVMValueRef mix(bd_gen *g, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
  return LLVMBuildXor(g->b, LLVMBuildXor(g->b, a, b, ""), c, "");
}

static LLVMValueRef philox(bd_gen *g, LLVMValueRef c[4], LLVMValueRef k0, LLVMValueRef k1) {
  for (int round = 0; round < 10; round++) {
    product p0 = multiply(g, c[0], 0xD2511F53u), p1 = multiply(g, c[2], 0xCD9E8D57u);
    LLVMValueRef c0 = mix(g, p1.high, c[1], bd_gen_splat(g, k0));
    LLVMValueRef c2 = mix(g, p0.high, c[3], bd_gen_splat(g, k1));
    c[0] = c0, c[1] = p1.low, c[2] = c2, c[3] = p0.low;
    k0 = LLVMBuildAdd(g->b, k0, bd_gen_int_like(k0, 0x9E3779B9), "");
    k1 = LLVMBuildAdd(g->b, k1, bd_gen_int_like(k1, 0xBB67AE85), "");
  }
  return c[0];
}

static LLVMValueRef load(bd_gen *g, LLVMTypeRef type, LLVMValueRef from, int64_t bytes) {
  LLVMValueRef at = bd_gen_long(g, bytes);
  LLVMValueRef address = LLVMBuildGEP2(g->b, LLVMInt8TypeInContext(g->llvm), from, &at, 1, "");
  return LLVMBuildLoad2(g->b, type, address, "");
}

// A field of bd_rt_random: { u64 seed, step; i64 first_sample; i32 call }. On GPUs those from
// `step` on that are of a micro-batch lie elsewhere: { u64 seed; {u64 step; i64 first_sample} *;
// i64; i32 call }.
static LLVMValueRef field(bd_gen *g, LLVMTypeRef type, int64_t bytes) {
  if (!g->cuda || bytes < 8 || bytes >= 24) return load(g, type, g->random, bytes);
  LLVMValueRef moving = load(g, LLVMPointerTypeInContext(g->llvm, 0), g->random, 8);
  return load(g, type, moving, bytes - 8);
}

LLVMValueRef bd_gen_first_sample(bd_gen *g) {
  return field(g, bd_gen_i64(g), 16);
}

static LLVMValueRef low_word(bd_gen *g, LLVMValueRef wide) {
  return LLVMBuildTrunc(g->b, wide, bd_gen_type_like(wide, bd_gen_i32(g)), "");
}

static LLVMValueRef high_word(bd_gen *g, LLVMValueRef wide) {
  return low_word(g, LLVMBuildLShr(g->b, wide, bd_gen_int_like(wide, 32), ""));
}

LLVMValueRef bd_gen_uniform(bd_gen *g, uint32_t site, LLVMValueRef sample, LLVMValueRef element) {
  LLVMValueRef seed = field(g, bd_gen_i64(g), 0);
  LLVMValueRef step = low_word(g, field(g, bd_gen_i64(g), 8));
  LLVMValueRef call = field(g, bd_gen_i32(g), 24);
  LLVMValueRef k0 = low_word(g, seed), k1 = high_word(g, seed);
  k0 = LLVMBuildXor(g->b, k0, bd_gen_int_like(k0, (uint32_t)(site * 0x9E3779B9u)), "");
  LLVMValueRef high = high_word(g, element);
  high = LLVMBuildAnd(g->b, high, bd_gen_int_like(high, 0xFFFF), "");
  call = LLVMBuildShl(g->b, call, bd_gen_int_like(call, 16), "");
  high = LLVMBuildOr(g->b, high, bd_gen_splat(g, call), "");
  LLVMValueRef counter[] = {low_word(g, element), high, low_word(g, sample), bd_gen_splat(g, step)};
  LLVMValueRef word = philox(g, counter, k0, k1);
  word = LLVMBuildLShr(g->b, word, bd_gen_int_like(word, 8), "");
  LLVMValueRef u = LLVMBuildSIToFP(g->b, word, bd_gen_type_like(word, bd_gen_f32(g)), "");
  return LLVMBuildFMul(g->b, u, bd_gen_real_like(u, 0x1p-24), "");
}
