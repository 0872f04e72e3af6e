// Time that passes, for deadlines and measurements.
#ifndef BD_IR_BASE_CLOCK_H
#define BD_IR_BASE_CLOCK_H

// Seconds of the monotonic clock, whose zero means nothing: only differences do. Never fails.
double bd_clock_seconds(void);
#endif
