// What surrounds the passes of a step: gradients are cleared before, summed and applied after.
#ifndef BD_RECORD_ENDS_H
#define BD_RECORD_ENDS_H
#include "tests/record/holding.h"

typedef struct record_ends {
  record_holding *h;
  int *applied;      // per weight of the stage: how often in this step
  unsigned *partial; // per buffer: mesh axes over which a gradient is still to be summed
} record_ends;

// 0, or -1 without memory. `h` is borrowed.
int record_ends_init(record_ends *ends, record_holding *h);
void record_ends_deinit(record_ends *ends);
// A step begins: no gradient is there.
void record_ends_new_step(record_ends *ends);
// An event outside of the passes; `clearing`: before them.
void record_ends_take(record_ends *ends, const record_event *event, bool clearing);
// A step is over: every weight that has a gradient was updated once, in this rank's part.
void record_ends_check(record_ends *ends);
// The last step is over: nothing is under way beside, and every weight is whole.
void record_ends_check_last(record_ends *ends);
#endif
