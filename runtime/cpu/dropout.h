// Attention's dropout masks, by global element: the same under every plan (docs/numerics.md). Two
// queries and two keys, both 8 apart, share a block of random words.
#ifndef BD_RT_CPU_DROPOUT_H
#define BD_RT_CPU_DROPOUT_H
#include "runtime/braid_rt_abi.h"
#include "runtime/cpu/attention.h"
#include "runtime/philox.h"

#include <immintrin.h>

enum { DROPOUT_APART = 8, DROPOUT_SPAN = 2 * DROPOUT_APART };
_Static_assert(ROWS % DROPOUT_SPAN == 0 && KEYS % DROPOUT_SPAN == 0,
               "queries and keys that share blocks lie in one tile");

// What a tile's draws have in common: words of the counter and the key; a word drops whose upper 24
// bits are below `bound`.
typedef struct bd_rt_dropout_site {
  uint32_t c2, c3, k0, k1, call;
  int bound;
  float keep;
} bd_rt_dropout_site;

static inline bd_rt_dropout_site bd_rt_dropout_at(const bd_rt_random *random, uint32_t site,
                                                  int64_t sample, float p) {
  return (bd_rt_dropout_site){.c2 = (uint32_t)sample,
                              .c3 = (uint32_t)random->step,
                              .k0 = (uint32_t)random->seed ^ site * 0x9E3779B9u,
                              .k1 = (uint32_t)(random->seed >> 32),
                              .call = (uint32_t)random->call << 16,
                              .bound = (int)__builtin_ceilf(p * 0x1p24f),
                              .keep = 1.0f / (1.0f - p)};
}

// Whether a pass drops any probabilities at all.
static inline int bd_rt_attention_drops(const bd_rt_attention *s, const bd_rt_random *random) {
  return s->dropout > 0 && !random->keeps_all;
}

// The words of bd_philox_4x32 for four first counters, each in the lower half of 64 bits; what the
// upper halves hold is noise here and in the result.
static inline void bd_rt_philox_words(const bd_rt_dropout_site *d, __m256i c0, uint32_t c1,
                                      __m256i out[4]) {
  const __m256i by_a = _mm256_set1_epi64x(0xD2511F53), by_b = _mm256_set1_epi64x(0xCD9E8D57);
  __m256i w1 = _mm256_set1_epi64x(c1), w2 = _mm256_set1_epi64x(d->c2);
  __m256i w3 = _mm256_set1_epi64x(d->c3);
  uint32_t k0 = d->k0, k1 = d->k1;
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
  out[0] = c0, out[1] = w1, out[2] = w2, out[3] = w3;
}

// Masks of two queries 8 apart and 16 keys per 8 blocks from `block` on, which is a multiple of 8:
// 0 where a probability is dropped, else what a kept one is multiplied by.
static inline void bd_rt_dropout_rows(const bd_rt_dropout_site *d, int64_t block, int64_t blocks,
                                      float *restrict upper, float *restrict lower) {
  const __m256i eight = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i bound = _mm256_set1_epi32(d->bound);
  for (int64_t at = 0; at < blocks; at += DROPOUT_APART) {
    const uint64_t number = (uint64_t)(block + at);
    const uint32_t c1 = ((uint32_t)(number >> 32) & 0xFFFFu) | d->call;
    const __m256i c0 = _mm256_add_epi32(_mm256_set1_epi32((int)(uint32_t)number), eight);
    __m256i even[4], odd[4];
    bd_rt_philox_words(d, c0, c1, even);
    bd_rt_philox_words(d, _mm256_srli_epi64(c0, 32), c1, odd);
    for (int word = 0; word < 4; word++) {
      const __m256i all = _mm256_blend_epi32(even[word], _mm256_slli_epi64(odd[word], 32), 0xAA);
      const __m256i dropped = _mm256_cmpgt_epi32(bound, _mm256_srli_epi32(all, 8));
      const __m256 mask = _mm256_andnot_ps(_mm256_castsi256_ps(dropped), _mm256_set1_ps(d->keep));
      _mm256_storeu_ps((word < 2 ? upper : lower) + 2 * at + word % 2 * DROPOUT_APART, mask);
    }
  }
}

// masks[i * KEYS + j]: of query `row` + i and key `key` + j, as far as the query sees keys. Both
// are where a tile begins, of one of this rank's samples and heads; there is room for a whole tile.
static inline void bd_rt_dropout_tile(const bd_rt_attention *s, const bd_rt_random *random,
                                      int64_t batch, int64_t head, int64_t row, int64_t rows,
                                      int64_t key, int64_t keys, float *masks) {
  const bd_rt_dropout_site site =
      bd_rt_dropout_at(random, s->site, s->first_sample + batch, s->dropout);
  const int64_t lines = (s->total_queries + DROPOUT_SPAN - 1) / DROPOUT_SPAN * DROPOUT_APART;
  const int64_t columns = (s->tk + DROPOUT_SPAN - 1) / DROPOUT_SPAN * DROPOUT_APART;
  for (int64_t i = 0; i < rows; i += DROPOUT_SPAN)
    for (int64_t upper = i; upper < i + DROPOUT_APART && upper < rows; upper++) {
      const int64_t lower = upper + DROPOUT_APART,
                    line = (s->first_query + row + i) / 2 + upper - i;
      const int64_t block = ((s->first_head + head) * lines + line) * columns + key / 2;
      const int64_t seen = bd_rt_seen(s, row + lower, key, keys);
      bd_rt_dropout_rows(&site, block, (seen + DROPOUT_SPAN - 1) / DROPOUT_SPAN * DROPOUT_APART,
                         masks + upper * KEYS, masks + lower * KEYS);
    }
}
#endif
