#include "ir/interpret.h"
#include <math.h>

// Philox4x32-10: ten rounds of two 32x32 multiplications each, over a 128-bit counter
// (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3. SC 2011).
enum { ROUNDS = 10 };

void bd_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
  const uint32_t multiplier0 = 0xD2511F53u, multiplier1 = 0xCD9E8D57u;
  const uint32_t weyl0 = 0x9E3779B9u, weyl1 = 0xBB67AE85u;
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < ROUNDS; round++) {
    uint64_t product0 = (uint64_t)multiplier0 * c0;
    uint64_t product1 = (uint64_t)multiplier1 * c2;
    uint32_t high0 = (uint32_t)(product0 >> 32), high1 = (uint32_t)(product1 >> 32);
    c0 = high1 ^ c1 ^ k0;
    c1 = (uint32_t)product1;
    c2 = high0 ^ c3 ^ k1;
    c3 = (uint32_t)product0;
    k0 += weyl0;
    k1 += weyl1;
  }
  out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

float bd_random_uniform(uint64_t seed, uint64_t step, uint32_t site, uint32_t call, uint64_t sample,
                        uint64_t element) {
  const uint64_t block = element / 4;
  const uint32_t counter[4] = {
      (uint32_t)block,
      (uint32_t)((block >> 32) & 0xFFFFu) | (call << 16),
      (uint32_t)sample,
      (uint32_t)step,
  };
  const uint32_t key[2] = {(uint32_t)seed ^ (site * 0x9E3779B9u), (uint32_t)(seed >> 32)};
  uint32_t words[4];
  bd_philox(counter, key, words);
  return (float)(words[element % 4] >> 8) * 0x1p-24f;
}

int64_t bd_random_score(int64_t head, int64_t query, int64_t key, int64_t queries, int64_t keys) {
  const int64_t rows = (queries + 15) / 16 * 8, columns = (keys + 15) / 16 * 8;
  const int64_t row = query / 16 * 8 + query % 8, column = key / 16 * 8 + key % 8;
  const int64_t word = query / 8 % 2 * 2 + key / 8 % 2;
  return ((head * rows + row) * columns + column) * 4 + word;
}

uint32_t bd_random_rounding(uint64_t seed, uint64_t step, uint32_t weight, uint64_t element) {
  const uint64_t draw = element / 256 * 32 + element % 32;
  const uint32_t counter[4] = {(uint32_t)draw, (uint32_t)(draw >> 32), (uint32_t)step,
                               0xC0000000u | weight};
  const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  uint32_t words[4];
  bd_philox(counter, key, words);
  const uint32_t part = (uint32_t)(element / 32 % 8);
  return words[part / 2] >> part % 2 * 16 & 0xFFFFu;
}

double bd_round_stochastically(double value, uint32_t bits) {
  const double wide = bd_dtype_round(BD_F32, value), size = fabs(wide);
  if (size == 0 || !isfinite(wide)) return bd_dtype_round(BD_BF16, wide);
  const int exponent = ilogb(size) < -126 ? -126 : ilogb(size);
  const double unit = ldexp(1, exponent - 7), lower = floor(size / unit);
  const double share = (size / unit - lower) * 0x1p16; // whole: f32 has 16 binary digits more
  const double rounded = (lower + (share + bits >= 0x1p16 ? 1 : 0)) * unit;
  return copysign(bd_dtype_round(BD_BF16, rounded), wide);
}
