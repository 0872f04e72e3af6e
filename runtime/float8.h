// Factors of matrix products in 8 bits: E4M3 and E5M2 of the OCP 8-bit Floating Point Specification
// (OFP8, revision 1.0, section 5). To nearest, ties to even; what is too large becomes the largest
// number, what is not finite NaN.
#ifndef BD_RT_FLOAT8_H
#define BD_RT_FLOAT8_H
#include "runtime/braid_rt.h"
#include "runtime/half.h"

// By format: digits after the point, what is added to their exponents, and code and bits (in the
// upper 16 of a float) of the largest number.
#define BD_RT_F8_DIGITS(format) ((format) == BD_RT_E4M3 ? 3 : 2)
#define BD_RT_F8_BIAS(format) ((format) == BD_RT_E4M3 ? 7 : 15)
#define BD_RT_F8_MOST(format) ((format) == BD_RT_E4M3 ? 0x7E : 0x7B)
#define BD_RT_F8_MOST_EXPONENT(format) ((format) == BD_RT_E4M3 ? 8 : 15)

// The largest power of two, at most 2^126, that leaves numbers of |x| up to the float `size_bits`
// within the format; 1 where the largest is 0 or not finite.
BD_RT_HALF float bd_rt_f8_scale(int format, uint32_t size_bits) {
  const int exponent = (int)(size_bits >> 23) - 127, above = (size_bits & 0x7FFFFF) > 0x600000;
  const int scale = BD_RT_F8_MOST_EXPONENT(format) - above - exponent;
  if (size_bits == 0 || size_bits >= 0x7F800000) return 1;
  return bd_rt_of_bits((uint32_t)((scale < 126 ? scale : 126) + 127) << 23);
}

// 1 / scale, exactly.
BD_RT_HALF float bd_rt_f8_inverse(float scale) {
  return bd_rt_of_bits((254u << 23) - bd_rt_bits_of(scale));
}

BD_RT_HALF uint8_t bd_rt_to_f8(int format, float value) {
  const uint32_t bits = bd_rt_bits_of(value), size = bits & 0x7FFFFFFF, sign = bits >> 24 & 0x80;
  const int shift = 23 - BD_RT_F8_DIGITS(format);
  const uint32_t least = (uint32_t)(128 - BD_RT_F8_BIAS(format)) << 23; // normal
  const uint32_t most = BD_RT_F8_MOST(format);
  if (size >= 0x7F800000) return (uint8_t)(sign | 0x7F);
  if (size < least) { // a unit is that of floats from `step` on
    const uint32_t step = least + ((uint32_t)shift << 23);
    return (uint8_t)(sign | (bd_rt_bits_of(bd_rt_of_bits(size) + bd_rt_of_bits(step)) - step));
  }
  const uint32_t code =
      ((size + (1u << (shift - 1)) - 1 + (size >> shift & 1)) - least + (1u << 23)) >> shift;
  return (uint8_t)(sign | (code < most ? code : most));
}

BD_RT_HALF float bd_rt_from_f8(int format, uint8_t code) {
  const int digits = BD_RT_F8_DIGITS(format), bias = BD_RT_F8_BIAS(format);
  const uint32_t size = code & 0x7F, sign = (uint32_t)(code & 0x80) << 24;
  const float unit = bd_rt_of_bits((uint32_t)(128 - bias - digits) << 23);
  if (size > (format == BD_RT_E4M3 ? 0x7Eu : 0x7Cu)) return bd_rt_of_bits(0x7FC00000 | sign);
  if (format == BD_RT_E5M2 && size == 0x7C) return bd_rt_of_bits(0x7F800000 | sign);
  if (size < 1u << digits) return bd_rt_of_bits(bd_rt_bits_of((float)size * unit) | sign);
  return bd_rt_of_bits(((size << (23 - digits)) + ((uint32_t)(127 - bias) << 23)) | sign);
}

// Whether a product marked for 8 bits is computed in them: one in grains.
BD_RT_HALF int bd_rt_is_f8(const bd_rt_gemm *s) {
  const int64_t between = s->batch > 1 ? s->out_batch : 0;
  return s->f8[0] && (s->m | s->n | s->k | s->out_m | between) % BD_RT_F8_GRAIN == 0;
}

// The same of a product of rows in groups. One stride of w is 1, the other a result's, or a factor
// without gaps.
BD_RT_HALF int bd_rt_is_f8_grouped(const bd_rt_grouped *s) {
  const int64_t apart = s->y_row | (s->w_k == 1 ? s->w_n : s->w_k);
  return s->f8[0] && (s->n | s->k | s->grain | apart) % BD_RT_F8_GRAIN == 0;
}
#endif
