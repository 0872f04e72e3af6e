// Numbers that look random and are the same on every machine: xorshift64* (Vigna, "An experimental
// exploration of Marsaglia's xorshift generators, scrambled", ACM TOMS 42(4), 2016).
#ifndef BD_PLANNER_SELECT_RANDOM_H
#define BD_PLANNER_SELECT_RANDOM_H
#include <stdint.h>

static inline uint64_t bd_select_seed(uint64_t number) {
  return number * 0x9e3779b97f4a7c15u + 1;
}

static inline int bd_select_below(uint64_t *state, int limit) {
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return (int)((*state * 0x2545f4914f6cdd1du >> 33) % (uint64_t)limit);
}
#endif
