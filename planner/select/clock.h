#ifndef BD_PLANNER_SELECT_CLOCK_H
#define BD_PLANNER_SELECT_CLOCK_H
#include <time.h>

// Seconds of CLOCK_MONOTONIC, for deadlines.
static inline double bd_select_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
#endif
