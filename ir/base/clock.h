// Time that passes, for deadlines and measurements.
#ifndef BD_IR_BASE_CLOCK_H
#define BD_IR_BASE_CLOCK_H
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

// Seconds of the monotonic clock, whose zero means nothing: only differences do. Never fails.
double bd_clock_seconds(void);
// Seconds of processor time that all threads of the process have had. Never fails.
double bd_clock_worked_seconds(void);

// When a search has to end with what it has: at a time, or as soon as its user wants no more.
typedef struct bd_deadline {
  double seconds;                    // of the clock; INFINITY: at no time
  const volatile sig_atomic_t *stop; // set by a signal handler; NULL: nobody does
} bd_deadline;
#define BD_NO_DEADLINE ((bd_deadline){INFINITY, NULL})

static inline bool bd_deadline_stopped(bd_deadline deadline) {
  return deadline.stop && *deadline.stop;
}
static inline bool bd_deadline_passed(bd_deadline deadline) {
  return bd_deadline_stopped(deadline) || bd_clock_seconds() >= deadline.seconds;
}
// `seconds` from now, unless the deadline comes before.
static inline bd_deadline bd_deadline_within(bd_deadline deadline, double seconds) {
  return (bd_deadline){fmin(deadline.seconds, bd_clock_seconds() + seconds), deadline.stop};
}
#endif
