// Scores that are held below a cap: cap tanh(score / cap).
#ifndef BD_RT_CPU_SOFTCAP_H
#define BD_RT_CPU_SOFTCAP_H
#include "runtime/cpu/attention.h"
#include "runtime/cpu/exp.h"

// tanhf within a few ulp, written so that the compiler vectorizes loops over it: its series below
// 0.55, (1 - e) / (1 + e) of e = exp(-2 |x|) above.
static inline float bd_rt_tanh(float x) {
  const float a = __builtin_fabsf(x), z = x * x, e = bd_rt_exp(-2 * a);
  float p = 5.90028338e-4f;
  p = __builtin_fmaf(p, z, -1.45583438e-3f);
  p = __builtin_fmaf(p, z, 3.59212804e-3f);
  p = __builtin_fmaf(p, z, -8.86323553e-3f);
  p = __builtin_fmaf(p, z, 2.18694885e-2f);
  p = __builtin_fmaf(p, z, -5.39682540e-2f);
  p = __builtin_fmaf(p, z, 1.33333333e-1f);
  p = __builtin_fmaf(p, z, -3.33333333e-1f);
  const float small = __builtin_fmaf(p * z, x, x);
  const float large = __builtin_copysignf((1 - e) / (1 + e), x);
  return a < 0.55f ? small : large;
}

// `rows` of `keys` scores, KEYS apart. slopes, in the same places: the derivatives of what they
// become by what they were; NULL: they are not wanted.
static inline void bd_rt_cap_scores(float cap, int64_t rows, int64_t keys, float *scores,
                                    float *slopes) {
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = i * KEYS; j < i * KEYS + keys; j++) {
      const float share = bd_rt_tanh(scores[j] / cap);
      scores[j] = cap * share;
      if (slopes) slopes[j] = 1 - share * share;
    }
}
#endif
