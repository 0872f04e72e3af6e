// Initial weights: each number is a function of the seed and of where it is in the model, so that
// every sharding begins with the same ones.
#ifndef BD_RT_INITIAL_H
#define BD_RT_INITIAL_H
#include "runtime/philox.h"

#include <math.h>

// The logical element `element` of a weight: from two uniforms of (seed, weight, element) a uniform
// number, or Box and Muller's normal one; docs/numerics.md.
BD_RT_ANYWHERE float bd_rt_initial(const bd_rt_weight *weight, uint64_t seed, int64_t element) {
  if (weight->init == BD_RT_INIT_ZEROS) return 0;
  if (weight->init == BD_RT_INIT_ONES) return 1;
  const bd_philox_words r = bd_philox_4x32((uint32_t)element, (uint32_t)((uint64_t)element >> 32),
                                           (uint32_t)weight->global_index, (uint32_t)BD_PHILOX_INIT,
                                           (uint32_t)seed, (uint32_t)(seed >> 32));
  if (weight->init == BD_RT_INIT_UNIFORM)
    return (2 * bd_philox_uniform(r.word[0]) - 1) * weight->init_scale;
  const double u = ((double)(r.word[0] >> 8) + 1) * 0x1p-24, v = (double)(r.word[1] >> 8) * 0x1p-24;
  return (float)(sqrt(-2 * log(u)) * cos(6.283185307179586477 * v)) * weight->init_scale;
}
#endif
