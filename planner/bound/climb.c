#include "planner/bound/climb.h"

double bd_climb_run(const bd_climb *c) {
  double best = c->bound_of(c->user);
  for (int round = 0; round < c->rounds; round++)
    for (int v = 0; v < c->count; v++)
      for (size_t i = 0; i < c->factor_count; i++) {
        double kept = c->value[v];
        c->value[v] *= c->factors[i];
        double bound = c->bound_of(c->user);
        if (bound > best)
          best = bound;
        else
          c->value[v] = kept;
      }
  return best;
}
