// Slots of memory that parts of a chain take.
#ifndef TESTS_UNIT_PLANNER_SUPPORT_CHAIN_H
#define TESTS_UNIT_PLANNER_SUPPORT_CHAIN_H
#include "planner/remat/chain.h"

static inline int64_t larger(int64_t a, int64_t b) {
  return a > b ? a : b;
}

// What a forward through s..t takes beside the first input, the gradient at the end included.
int64_t sweep_slots(const bd_chain *c, int s, int t);
#endif
