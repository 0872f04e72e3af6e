#include "ir/element.h"
#include <math.h>
#include <string.h>

// IEEE 754 binary16, of bits and of a number that it has.
static double half_of(uint64_t bits) {
  int exponent = (int)(bits >> 10) & 31;
  double fraction = (double)(bits & 1023);
  double size = exponent == 0    ? ldexp(fraction, -24)
                : exponent == 31 ? (fraction > 0 ? (double)NAN : (double)INFINITY)
                                 : ldexp(1024 + fraction, exponent - 25);
  return bits & 0x8000 ? -size : size;
}

static uint64_t half_bits(double value) {
  uint64_t sign = signbit(value) ? 0x8000 : 0;
  double size = fabs(value);
  if (isnan(value)) return sign | 0x7E00;
  if (isinf(value)) return sign | 0x7C00;
  if (size < 0x1p-14) return sign | (uint64_t)ldexp(size, 24);
  int exponent = ilogb(size);
  return sign | (uint64_t)(exponent + 15) << 10 | (uint64_t)(ldexp(size, 10 - exponent) - 1024);
}

static double single_of(uint64_t bits) {
  uint32_t word = (uint32_t)bits;
  float value;
  memcpy(&value, &word, sizeof value);
  return value;
}

static uint64_t single_bits(double value) {
  float single = (float)value;
  uint32_t word;
  memcpy(&word, &single, sizeof word);
  return word;
}

static double double_of(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

double bd_element_read(bd_dtype dtype, const void *buffer, int64_t i) {
  size_t size = (size_t)bd_dtype_bytes(dtype);
  uint64_t bits = 0;
  memcpy(&bits, (const char *)buffer + (size_t)i * size, size);
  switch (dtype) {
  case BD_F32:
    return single_of(bits);
  case BD_BF16:
    return single_of(bits << 16);
  case BD_F16:
    return half_of(bits);
  case BD_F64:
    return double_of(bits);
  case BD_BOOL:
    return bits != 0;
  default:
    break;
  }
  int above = 64 - 8 * (int)size;
  return bd_dtype_is_unsigned(dtype) ? (double)bits : (double)((int64_t)(bits << above) >> above);
}

static uint64_t integer_bits(bd_dtype dtype, double value) {
  if (dtype == BD_U64) return value >= 0x1p64 ? UINT64_MAX : (uint64_t)value;
  return value >= 0x1p63 ? INT64_MAX : (uint64_t)(int64_t)value;
}

void bd_element_write(bd_dtype dtype, void *buffer, int64_t i, double value) {
  size_t size = (size_t)bd_dtype_bytes(dtype);
  double number = bd_dtype_round(dtype, value);
  uint64_t bits = 0;
  if (dtype == BD_F64)
    memcpy(&bits, &number, sizeof bits);
  else if (dtype == BD_F16)
    bits = half_bits(number);
  else if (dtype == BD_BF16)
    bits = single_bits(number) >> 16;
  else if (dtype == BD_F32)
    bits = single_bits(number);
  else
    bits = integer_bits(dtype, number);
  memcpy((char *)buffer + (size_t)i * size, &bits, size);
}
