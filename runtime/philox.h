// Philox4x32-10 (Salmon et al. 2011): four random words as a pure function of a counter and a key.
#ifndef BD_RT_PHILOX_H
#define BD_RT_PHILOX_H
#include "runtime/layout.h"

typedef struct bd_philox_words {
  uint32_t word[4];
} bd_philox_words;

BD_RT_ANYWHERE bd_philox_words bd_philox_4x32(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3,
                                              uint32_t k0, uint32_t k1) {
  for (int round = 0; round < 10; round++) {
    const uint64_t a = (uint64_t)0xD2511F53u * c0, b = (uint64_t)0xCD9E8D57u * c2;
    c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
    c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
    c1 = (uint32_t)b;
    c3 = (uint32_t)a;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  const bd_philox_words out = {{c0, c1, c2, c3}};
  return out;
}

// In [0, 1), a multiple of 2^-24.
BD_RT_ANYWHERE float bd_philox_uniform(uint32_t word) {
  return (float)(int32_t)(word >> 8) * 0x1p-24f;
}

// Third words of the keys' domains, so that draws for different purposes never share a counter:
// dropout keeps a step in the last word, the others a constant that no step reaches, or its upper
// bits beside the number of a weight.
enum { BD_PHILOX_INIT = (int)0x80000001, BD_PHILOX_WINDOW = (int)0x80000002 };
#define BD_PHILOX_ROUNDING 0xC0000000u
#endif
