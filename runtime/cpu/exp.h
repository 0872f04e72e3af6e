// expf for x <= 0 within about 1 ulp, written so that the compiler vectorizes loops over it.
#ifndef BD_RT_CPU_EXP_H
#define BD_RT_CPU_EXP_H
#include <stdint.h>
#include <string.h>

static inline float bd_rt_exp(float x) {
  const float magic = 12582912.0f; // 1.5 * 2^23: adding it rounds to a whole number
  const float y = x < -87.0f ? -87.0f : x;
  const float shifted = __builtin_fmaf(y, 1.44269504088896341f, magic);
  const float n = shifted - magic;
  float r = __builtin_fmaf(n, -0.693359375f, y);
  r = __builtin_fmaf(n, 2.12194440e-4f, r);
  float p = 1.9875691500e-4f;
  p = __builtin_fmaf(p, r, 1.3981999507e-3f);
  p = __builtin_fmaf(p, r, 8.3334519073e-3f);
  p = __builtin_fmaf(p, r, 4.1665795894e-2f);
  p = __builtin_fmaf(p, r, 1.6666665459e-1f);
  p = __builtin_fmaf(p, r, 5.0000001201e-1f);
  p = __builtin_fmaf(p, r * r, r) + 1.0f;
  int32_t exponent;
  memcpy(&exponent, &shifted, sizeof exponent);
  const int32_t bits = (exponent - 0x4B400000 + 127) << 23;
  float scale;
  memcpy(&scale, &bits, sizeof scale);
  return x < -87.0f ? 0.0f : p * scale;
}
#endif
