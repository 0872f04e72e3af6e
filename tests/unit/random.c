#include "tests/unit/random.h"

static uint64_t state = 1;

void random_begin(uint64_t seed) {
  state = seed;
}

// A linear congruential generator; its upper bits are the better ones.
unsigned random_below(unsigned limit) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)(state >> 33) % limit;
}
