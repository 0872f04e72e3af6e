// Runs of halves to floats and back, by the processor's instructions where it has them.
#ifndef BD_RT_CPU_HALVES_H
#define BD_RT_CPU_HALVES_H
#include "runtime/half.h"

#include <immintrin.h>

// How many of `count` halves the processor's instructions for f16 convert, from the first on.
static inline int64_t bd_rt_widen_f16(const uint16_t *halves, float *floats, int64_t count) {
#ifdef __F16C__
  const int64_t runs = count / 8;
  for (int64_t i = 0; i < runs; i++)
    _mm256_storeu_ps(floats + 8 * i, _mm256_cvtph_ps(_mm_loadu_si128(
                                         (const __m128i *)(const void *)(halves + 8 * i))));
  return 8 * runs;
#else
  (void)halves, (void)floats, (void)count;
  return 0;
#endif
}

static inline int64_t bd_rt_narrow_f16(const float *floats, uint16_t *halves, int64_t count) {
#ifdef __F16C__
  const int64_t runs = count / 8;
  for (int64_t i = 0; i < runs; i++)
    _mm_storeu_si128((__m128i *)(void *)(halves + 8 * i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(floats + 8 * i), _MM_FROUND_TO_NEAREST_INT));
  return 8 * runs;
#else
  (void)floats, (void)halves, (void)count;
  return 0;
#endif
}

static inline void bd_rt_widen_run(int dtype, const uint16_t *restrict halves,
                                   float *restrict floats, int64_t count) {
  if (dtype == BD_RT_F16)
    for (int64_t i = bd_rt_widen_f16(halves, floats, count); i < count; i++)
      floats[i] = bd_rt_from_f16(halves[i]);
  else
    for (int64_t i = 0; i < count; i++)
      floats[i] = bd_rt_from_bf16(halves[i]);
}

static inline void bd_rt_narrow_run(int dtype, const float *restrict floats,
                                    uint16_t *restrict halves, int64_t count) {
  if (dtype == BD_RT_F16)
    for (int64_t i = bd_rt_narrow_f16(floats, halves, count); i < count; i++)
      halves[i] = bd_rt_to_f16(floats[i]);
  else
    for (int64_t i = 0; i < count; i++)
      halves[i] = bd_rt_to_bf16(floats[i]);
}
#endif
