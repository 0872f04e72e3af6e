// Weights without masters: what the optimizer computes in f32 is rounded to bf16 stochastically, so
// that the mean of the rounded number is the number (Gupta et al., "Deep Learning with Limited
// Numerical Precision", ICML 2015, section 3). The random bits of an element depend on seed, step,
// weight and its place in the logical weight, on no plan; docs/numerics.md says how.
#ifndef BD_RT_ROUNDING_H
#define BD_RT_ROUNDING_H
#include "runtime/half.h"
#include "runtime/layout.h"
#include "runtime/philox.h"

// A draw of 128 bits serves 8 elements that lie BD_RT_DRAW_LANES apart, so that neighbours, which
// are computed side by side, have draws side by side.
enum { BD_RT_DRAW_LANES = 32, BD_RT_DRAW_TILE = 8 * BD_RT_DRAW_LANES };

// Which bits round the elements of a rule. Words alone, nothing between them.
typedef struct bd_rt_draws {
  uint64_t seed, step;
  int64_t weight; // its number in the model
  // The rule's first element in the rank's part of the weight, whose dimensions are merged where
  // they may be: logical extents, first elements, extents of the part with padding.
  int64_t first, rank;
  int64_t dims[BD_RT_MAX_RANK], start[BD_RT_MAX_RANK], extent[BD_RT_MAX_RANK];
} bd_rt_draws;

// The logical element that element `i` of the rule is; of padding, any.
BD_RT_ANYWHERE int64_t bd_rt_drawn_element(const bd_rt_draws *d, int64_t i) {
  int64_t rest = d->first + i, element = 0, stride = 1;
  for (int64_t k = d->rank - 1; k > 0; k--) {
    element += (d->start[k] + rest % d->extent[k]) * stride;
    rest /= d->extent[k];
    stride *= d->dims[k];
  }
  return element + (d->rank > 0 ? d->start[0] + rest : 0) * stride;
}

// The draw that serves a logical element, and which of its 8 times 16 bits are the element's.
BD_RT_ANYWHERE int64_t bd_rt_draw_number(int64_t element) {
  return element / BD_RT_DRAW_TILE * BD_RT_DRAW_LANES + element % BD_RT_DRAW_LANES;
}

BD_RT_ANYWHERE int bd_rt_draw_part(int64_t element) {
  return (int)(element / BD_RT_DRAW_LANES % 8);
}

BD_RT_ANYWHERE bd_philox_words bd_rt_draw(const bd_rt_draws *d, uint64_t step, int64_t number) {
  return bd_philox_4x32((uint32_t)number, (uint32_t)((uint64_t)number >> 32), (uint32_t)step,
                        BD_PHILOX_ROUNDING | (uint32_t)d->weight, (uint32_t)d->seed,
                        (uint32_t)(d->seed >> 32));
}

// The lower bf16 of the two around `value`, by size, and the upper one in as many of the 2^16 cases
// as `value` lies above the lower in 2^-16 of their distance. What bf16 has stays what it is, and
// no number stays none. The upper half of the word is the bf16.
BD_RT_ANYWHERE uint32_t bd_rt_round_upper(float value, uint32_t bits) {
  const uint32_t exact = bd_rt_bits_of(value);
  return value != value ? exact | 0x400000 : exact + (bits & 0xFFFF);
}

BD_RT_ANYWHERE uint16_t bd_rt_round_bf16(float value, uint32_t bits) {
  return (uint16_t)(bd_rt_round_upper(value, bits) >> 16);
}
#endif
