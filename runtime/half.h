// Halves as bits: bf16, the upper half of a float, and f16 of IEEE 754. To nearest, ties to even;
// what is too large becomes an infinity, and a NaN stays one.
#ifndef BD_RT_HALF_H
#define BD_RT_HALF_H
#include "runtime/braid_rt_abi.h"

#include <string.h>

#ifdef __CUDACC__
#define BD_RT_HALF static __host__ __device__ inline
#else
#define BD_RT_HALF static inline
#endif

BD_RT_HALF uint32_t bd_rt_bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

BD_RT_HALF float bd_rt_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

BD_RT_HALF float bd_rt_from_bf16(uint16_t half) {
  return bd_rt_of_bits((uint32_t)half << 16);
}

BD_RT_HALF uint16_t bd_rt_to_bf16(float value) {
  const uint32_t bits = bd_rt_bits_of(value);
  const uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
  const uint32_t quiet = bits >> 16 | 0x40;
  return (uint16_t)((bits & 0x7FFFFFFF) > 0x7F800000 ? quiet : rounded);
}

BD_RT_HALF float bd_rt_from_f16(uint16_t half) {
  const uint32_t size = half & 0x7FFF, sign = (uint32_t)(half & 0x8000) << 16;
  if (size < 0x400) return bd_rt_of_bits(bd_rt_bits_of((float)size * 0x1p-24f) | sign);
  if (size < 0x7C00) return bd_rt_of_bits(((size << 13) + 0x38000000) | sign);
  return bd_rt_of_bits(size << 13 | 0x7F800000 | (size > 0x7C00 ? 0x400000 : 0) | sign);
}

BD_RT_HALF uint16_t bd_rt_to_f16(float value) {
  const uint32_t bits = bd_rt_bits_of(value), size = bits & 0x7FFFFFFF, sign = bits >> 16 & 0x8000;
  if (size > 0x7F800000) return (uint16_t)(sign | 0x7E00 | (size >> 13 & 0x3FF));
  if (size >= 0x477FF000) return (uint16_t)(sign | 0x7C00);
  // Below 2^-14 a unit is 2^-24, as that of floats from 0.5 on.
  if (size < 0x38800000)
    return (uint16_t)(sign | (bd_rt_bits_of(bd_rt_of_bits(size) + 0.5f) - 0x3F000000));
  return (uint16_t)(sign | (size + 0xFFF + (size >> 13 & 1) - 0x38000000) >> 13);
}

// Of either kind, by dtype.
BD_RT_HALF float bd_rt_from_half(int dtype, uint16_t half) {
  return dtype == BD_RT_F16 ? bd_rt_from_f16(half) : bd_rt_from_bf16(half);
}

BD_RT_HALF uint16_t bd_rt_to_half(int dtype, float value) {
  return dtype == BD_RT_F16 ? bd_rt_to_f16(value) : bd_rt_to_bf16(value);
}

// Element `i` of f32 or of halves.
BD_RT_HALF float bd_rt_get_element(int dtype, const void *from, int64_t i) {
  return dtype == BD_RT_F32 ? ((const float *)from)[i]
                            : bd_rt_from_half(dtype, ((const uint16_t *)from)[i]);
}

BD_RT_HALF void bd_rt_put_element(int dtype, void *to, int64_t i, float value) {
  if (dtype == BD_RT_F32)
    ((float *)to)[i] = value;
  else
    ((uint16_t *)to)[i] = bd_rt_to_half(dtype, value);
}
#endif
