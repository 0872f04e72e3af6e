// Dropout's mask, by global element: the same under every plan (docs/numerics.md).
#ifndef BD_RT_CPU_DROPOUT_H
#define BD_RT_CPU_DROPOUT_H
#include "runtime/braid_rt_abi.h"
#include "runtime/philox.h"

// out[i] = 0 where element `element` + i is dropped, else `keep`.
static inline void bd_rt_dropout_mask(const bd_rt_random *random, uint32_t site, int64_t sample,
                                      int64_t element, float p, float keep, int64_t count,
                                      float *restrict out) {
  const uint32_t k0 = (uint32_t)random->seed ^ site * 0x9E3779B9u;
  const uint32_t k1 = (uint32_t)(random->seed >> 32);
  const uint32_t call = (uint32_t)random->call << 16;
  const uint32_t c2 = (uint32_t)sample, c3 = (uint32_t)random->step;
  for (int64_t i = 0; i < count; i++) {
    const uint64_t at = (uint64_t)(element + i);
    const uint32_t c1 = ((uint32_t)(at >> 32) & 0xFFFFu) | call;
    const bd_philox r = bd_philox_4x32((uint32_t)at, c1, c2, c3, k0, k1);
    out[i] = bd_philox_uniform(r.word[0]) < p ? 0.0f : keep;
  }
}
#endif
