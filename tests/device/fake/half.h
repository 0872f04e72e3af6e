// Halves of the fake device, by arithmetic: to nearest, ties to even.
#ifndef BD_TESTS_DEVICE_HALF_H
#define BD_TESTS_DEVICE_HALF_H
#include <math.h>
#include <stdint.h>
#include <string.h>

// Explicit digits of the significand and the greatest exponent; the least is 1 - greatest.
typedef struct bd_fake_half {
  int digits, greatest;
} bd_fake_half;
static const bd_fake_half bd_fake_bf16 = {7, 127}, bd_fake_f16 = {10, 15};

// 2^exponent, of a number that is no subnormal.
static inline double bd_fake_power(int exponent) {
  const uint64_t bits = (uint64_t)(exponent + 1023) << 52;
  double power;
  memcpy(&power, &bits, sizeof power);
  return power;
}

// That of the first digit; of 0 one below all floats'.
static inline int bd_fake_exponent(double size) {
  uint64_t bits;
  memcpy(&bits, &size, sizeof bits);
  return (int)(bits >> 52 & 2047) - 1023;
}

// To the nearest whole number below 2^51, ties to even: larger ones have no fractions.
static inline double bd_fake_whole(double size) {
  return size + 0x1p52 - 0x1p52;
}

static inline float bd_fake_of_half(bd_fake_half kind, uint16_t bits) {
  const int size = bits & 0x7FFF, exponent = size >> kind.digits;
  const int fraction = size & ((1 << kind.digits) - 1);
  const float sign = bits >> 15 ? -1 : 1;
  if (exponent > 2 * kind.greatest) return fraction ? NAN : sign * INFINITY;
  const int unit = (exponent ? exponent : 1) - kind.greatest - kind.digits;
  const int units = exponent ? fraction + (1 << kind.digits) : fraction;
  return sign * (float)(units * bd_fake_power(unit));
}

// 8 bits: E5M2 as halves are; E4M3 without infinities, all ones being no number.
static inline float bd_fake_of_e5m2(uint8_t bits) {
  return bd_fake_of_half(bd_fake_f16, (uint16_t)(bits << 8));
}

static inline float bd_fake_of_e4m3(uint8_t bits) {
  const int exponent = bits >> 3 & 15, fraction = bits & 7;
  const int units = exponent ? 8 + fraction : fraction;
  const float size = (float)(units * bd_fake_power((exponent ? exponent : 1) - 10));
  if (exponent == 15 && fraction == 7) return NAN;
  return bits >> 7 ? -size : size;
}

static inline uint16_t bd_fake_to_half(bd_fake_half kind, float value) {
  const int infinite = (2 * kind.greatest + 1) << kind.digits;
  const uint16_t sign = signbit(value) ? 0x8000 : 0;
  if (isnan(value)) return (uint16_t)(sign | infinite | 1 << (kind.digits - 1));
  if (isinf(value)) return (uint16_t)(sign | infinite);
  const double size = fabs((double)value);
  int unit = bd_fake_exponent(size) - kind.digits;
  if (unit < 1 - kind.greatest - kind.digits) unit = 1 - kind.greatest - kind.digits;
  // In units: a subnormal number is itself, and what is rounded up carries into the exponent.
  const int units = (int)bd_fake_whole(size * bd_fake_power(-unit));
  const int steps = unit + kind.greatest + kind.digits - 1;
  const int bits = units ? (steps << kind.digits) + units : 0;
  return (uint16_t)(sign | (bits < infinite ? bits : infinite));
}
#endif
