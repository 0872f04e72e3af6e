#ifndef BD_TESTS_DEVICE_BF16_H
#define BD_TESTS_DEVICE_BF16_H
#include <stdint.h>
#include <string.h>

static inline float bd_fake_of_bf16(uint16_t bits) {
  const uint32_t wide = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &wide, sizeof value);
  return value;
}

// To nearest, ties to even.
static inline uint16_t bd_fake_to_bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if (value != value) return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}
#endif
