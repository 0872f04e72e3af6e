// Dropout's mask, by global element: the same under every plan (docs/numerics.md).
#ifndef BD_RT_CPU_DROPOUT_H
#define BD_RT_CPU_DROPOUT_H
#include "runtime/braid_rt_abi.h"
#include "runtime/philox.h"

#include <immintrin.h>

// The first words of bd_philox_4x32 for four first counters, each in the lower half of 64 bits;
// what the upper halves hold is noise here and in the result.
static inline __m256i bd_rt_philox_words(__m256i c0, uint32_t c1, uint32_t c2, uint32_t c3,
                                         uint32_t k0, uint32_t k1) {
  const __m256i by_a = _mm256_set1_epi64x(0xD2511F53), by_b = _mm256_set1_epi64x(0xCD9E8D57);
  __m256i w1 = _mm256_set1_epi64x(c1), w2 = _mm256_set1_epi64x(c2), w3 = _mm256_set1_epi64x(c3);
  for (int round = 0; round < 10; round++) {
    const __m256i a = _mm256_mul_epu32(c0, by_a), b = _mm256_mul_epu32(w2, by_b);
    const __m256i x0 = _mm256_xor_si256(w1, _mm256_set1_epi64x(k0));
    const __m256i x2 = _mm256_xor_si256(w3, _mm256_set1_epi64x(k1));
    c0 = _mm256_xor_si256(_mm256_srli_epi64(b, 32), x0);
    w2 = _mm256_xor_si256(_mm256_srli_epi64(a, 32), x2);
    w1 = b;
    w3 = a;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c0;
}

// out[i] = 0 where element `element` + i is dropped, else `keep`.
static inline void bd_rt_dropout_mask(const bd_rt_random *random, uint32_t site, int64_t sample,
                                      int64_t element, float p, float keep, int64_t count,
                                      float *restrict out) {
  const uint32_t k0 = (uint32_t)random->seed ^ site * 0x9E3779B9u;
  const uint32_t k1 = (uint32_t)(random->seed >> 32);
  const uint32_t call = (uint32_t)random->call << 16;
  const uint32_t c2 = (uint32_t)sample, c3 = (uint32_t)random->step;
  const __m256i eight = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  int64_t i = 0;
  // Eight at a time while their counters differ in the lowest word only.
  for (; i + 8 <= count && (uint32_t)(element + i) <= UINT32_MAX - 7; i += 8) {
    const uint64_t at = (uint64_t)(element + i);
    const uint32_t c1 = ((uint32_t)(at >> 32) & 0xFFFFu) | call;
    const __m256i c0 = _mm256_add_epi32(_mm256_set1_epi32((int)(uint32_t)at), eight);
    const __m256i even = bd_rt_philox_words(c0, c1, c2, c3, k0, k1);
    const __m256i odd = bd_rt_philox_words(_mm256_srli_epi64(c0, 32), c1, c2, c3, k0, k1);
    const __m256i word = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
    const __m256 whole = _mm256_cvtepi32_ps(_mm256_srli_epi32(word, 8));
    const __m256 u = _mm256_mul_ps(whole, _mm256_set1_ps(0x1p-24f));
    const __m256 kept = _mm256_cmp_ps(u, _mm256_set1_ps(p), _CMP_NLT_UQ);
    _mm256_storeu_ps(out + i, _mm256_and_ps(kept, _mm256_set1_ps(keep)));
  }
  for (; i < count; i++) {
    const uint64_t at = (uint64_t)(element + i);
    const uint32_t c1 = ((uint32_t)(at >> 32) & 0xFFFFu) | call;
    const bd_philox_words r = bd_philox_4x32((uint32_t)at, c1, c2, c3, k0, k1);
    out[i] = bd_philox_uniform(r.word[0]) < p ? 0.0f : keep;
  }
}
#endif
