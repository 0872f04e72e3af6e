#include "tests/unit/planner/support_chain.h"

int64_t sweep_slots(const bd_chain *c, int s, int t) {
  int64_t most = c->value[s + 1];
  for (int j = s + 1; j < t; j++)
    most = larger(most, c->value[j] + c->value[j + 1]);
  return c->value[t + 1] + most;
}
