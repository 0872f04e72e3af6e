// bf16: the upper half of a float. Rounds to nearest, ties to even; a NaN stays one.
#ifndef BD_RT_BF16_H
#define BD_RT_BF16_H
#include <stdint.h>
#include <string.h>

static inline float bd_rt_from_bf16(uint16_t half) {
  const uint32_t bits = (uint32_t)half << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline uint16_t bd_rt_to_bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  const uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
  const uint32_t quiet = bits >> 16 | 0x40;
  return (uint16_t)((bits & 0x7FFFFFFF) > 0x7F800000 ? quiet : rounded);
}
#endif
