// Philox4x32-10 in lanes: the words of bd_random_uniform (ir/random.c).
#include "codegen/kernel/gen.h"
#include <math.h>

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

// Leaves the words in place of the counter.
static void philox(bd_gen *g, LLVMValueRef c[4], LLVMValueRef k0, LLVMValueRef k1) {
  for (int round = 0; round < 10; round++) {
    product p0 = multiply(g, c[0], 0xD2511F53u), p1 = multiply(g, c[2], 0xCD9E8D57u);
    LLVMValueRef c0 = mix(g, p1.high, c[1], bd_gen_splat_like(g, c[0], k0));
    LLVMValueRef c2 = mix(g, p0.high, c[3], bd_gen_splat_like(g, c[0], k1));
    c[0] = c0, c[1] = p1.low, c[2] = c2, c[3] = p0.low;
    k0 = LLVMBuildAdd(g->b, k0, bd_gen_int_like(k0, 0x9E3779B9), "");
    k1 = LLVMBuildAdd(g->b, k1, bd_gen_int_like(k1, 0xBB67AE85), "");
  }
}

static LLVMValueRef load(bd_gen *g, LLVMTypeRef type, LLVMValueRef from, int64_t bytes) {
  LLVMValueRef at = bd_gen_long(g, bytes);
  LLVMValueRef address = LLVMBuildGEP2(g->b, LLVMInt8TypeInContext(g->llvm), from, &at, 1, "");
  return LLVMBuildLoad2(g->b, type, address, "");
}

// A field of bd_rt_random: { u64 seed, step; i64 first_sample; i32 call, keeps_all }. On GPUs those
// from `step` on that are of a micro-batch lie elsewhere, at m: { u64 seed; m; i64; i32 call,
// keeps_all }, where m points to { u64 step; i64 first_sample }.
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

bd_gen_site bd_gen_site_open(bd_gen *g, uint32_t site) {
  LLVMValueRef seed = field(g, bd_gen_i64(g), 0), call = field(g, bd_gen_i32(g), 24);
  LLVMValueRef step = low_word(g, field(g, bd_gen_i64(g), 8)), k0 = low_word(g, seed);
  return (bd_gen_site){
      .k0 = LLVMBuildXor(g->b, k0, bd_gen_int_like(k0, (uint32_t)(site * 0x9E3779B9u)), ""),
      .k1 = high_word(g, seed),
      .call = LLVMBuildShl(g->b, call, bd_gen_int_like(call, 16), ""),
      .step = step};
}

void bd_gen_draw(bd_gen *g, const bd_gen_site *site, LLVMValueRef sample, LLVMValueRef block,
                 LLVMValueRef out_words[4]) {
  LLVMValueRef low = low_word(g, block), high = high_word(g, block);
  high = LLVMBuildAnd(g->b, high, bd_gen_int_like(high, 0xFFFF), "");
  out_words[0] = low;
  out_words[1] = LLVMBuildOr(g->b, high, bd_gen_splat_like(g, low, site->call), "");
  out_words[2] = low_word(g, sample);
  out_words[3] = bd_gen_splat_like(g, low, site->step);
  philox(g, out_words, site->k0, site->k1);
}

LLVMValueRef bd_gen_choose_word(bd_gen *g, LLVMValueRef words[4], LLVMValueRef number) {
  LLVMValueRef part[2], bit[2];
  for (int i = 0; i < 2; i++) {
    bit[i] = LLVMBuildAnd(g->b, number, bd_gen_int_like(number, 1 << i), "");
    bit[i] = LLVMBuildICmp(g->b, LLVMIntNE, bit[i], bd_gen_int_like(number, 0), "");
  }
  for (int i = 0; i < 2; i++)
    part[i] = LLVMBuildSelect(g->b, bit[0], words[2 * i + 1], words[2 * i], "");
  return LLVMBuildSelect(g->b, bit[1], part[1], part[0], "");
}

static LLVMValueRef keeps_all(bd_gen *g) {
  LLVMValueRef word = field(g, bd_gen_i32(g), 28);
  return LLVMBuildICmp(g->b, LLVMIntNE, word, bd_gen_int_like(word, 0), "");
}

LLVMValueRef bd_gen_drops(bd_gen *g, LLVMValueRef word, double p) {
  LLVMValueRef bound =
      LLVMConstInt(bd_gen_i32(g), (uint64_t)ceil((double)(float)p * 0x1p24), false);
  bound = LLVMBuildSelect(g->b, keeps_all(g), LLVMConstNull(bd_gen_i32(g)), bound, "");
  word = LLVMBuildLShr(g->b, word, bd_gen_int_like(word, 8), "");
  return LLVMBuildICmp(g->b, LLVMIntULT, word, bd_gen_splat_like(g, word, bound), "");
}

LLVMValueRef bd_gen_keep(bd_gen *g, double factor) {
  LLVMTypeRef f32 = bd_gen_f32(g);
  return LLVMBuildSelect(g->b, keeps_all(g), LLVMConstReal(f32, 1.0), LLVMConstReal(f32, factor),
                         "");
}
