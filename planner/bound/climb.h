// Ascent by coordinates: the values of a bound that any values make valid.
#ifndef BD_PLANNER_BOUND_CLIMB_H
#define BD_PLANNER_BOUND_CLIMB_H
#include <stddef.h>

typedef struct bd_climb {
  double *value;
  int count;
  const double *factors; // that a value is tried with
  size_t factor_count;
  int rounds;
  double (*bound_of)(void *user); // under the values as they stand
  void *user;
} bd_climb;

// One value after another is multiplied for as long as that raises the bound. Returns the bound
// under the values it leaves.
double bd_climb_run(const bd_climb *climb);
#endif
