// Halves of the fake device, by arithmetic: to nearest, ties to even.
#ifndef BD_TESTS_DEVICE_HALF_H
#define BD_TESTS_DEVICE_HALF_H
#include <math.h>
#include <stdint.h>

// Explicit digits of the significand and the greatest exponent; the least is 1 - greatest.
typedef struct bd_fake_half {
  int digits, greatest;
} bd_fake_half;
static const bd_fake_half bd_fake_bf16 = {7, 127}, bd_fake_f16 = {10, 15};

static inline float bd_fake_of_half(bd_fake_half kind, uint16_t bits) {
  const int size = bits & 0x7FFF, exponent = size >> kind.digits;
  const int fraction = size & ((1 << kind.digits) - 1);
  const float sign = bits >> 15 ? -1 : 1;
  if (exponent > 2 * kind.greatest) return fraction ? NAN : sign * INFINITY;
  const int unit = (exponent ? exponent : 1) - kind.greatest - kind.digits;
  return sign * ldexpf((float)(exponent ? fraction + (1 << kind.digits) : fraction), unit);
}

// 8 bits: E5M2 as halves are; E4M3 without infinities, all ones being no number.
static inline float bd_fake_of_e5m2(uint8_t bits) {
  return bd_fake_of_half(bd_fake_f16, (uint16_t)(bits << 8));
}

static inline float bd_fake_of_e4m3(uint8_t bits) {
  const int exponent = bits >> 3 & 15, fraction = bits & 7;
  const float size =
      ldexpf((float)(exponent ? 8 + fraction : fraction), (exponent ? exponent : 1) - 10);
  if (exponent == 15 && fraction == 7) return NAN;
  return bits >> 7 ? -size : size;
}

static inline uint16_t bd_fake_to_half(bd_fake_half kind, float value) {
  const int infinite = (2 * kind.greatest + 1) << kind.digits;
  const uint16_t sign = signbit(value) ? 0x8000 : 0;
  int exponent;
  if (isnan(value)) return (uint16_t)(sign | infinite | 1 << (kind.digits - 1));
  if (isinf(value)) return (uint16_t)(sign | infinite);
  const double fraction = frexp(fabs((double)value), &exponent);
  int unit = exponent - 1 - kind.digits;
  if (exponent - 1 < 1 - kind.greatest) unit = 1 - kind.greatest - kind.digits;
  // In units: a subnormal number is itself, and what is rounded up carries into the exponent.
  const int units = (int)nearbyint(ldexp(fraction, exponent - unit));
  const int steps = unit + kind.greatest + kind.digits - 1;
  const int bits = units ? (steps << kind.digits) + units : 0;
  return (uint16_t)(sign | (bits < infinite ? bits : infinite));
}
#endif
