// How far a search may go: counted, so that equal inputs give equal answers on any machine, and
// within a deadline, which ends it early.
#ifndef BD_PLANNER_GRAPH_METER_H
#define BD_PLANNER_GRAPH_METER_H
#include "ir/base/clock.h"
#include <stdint.h>

typedef struct bd_layers_meter {
  int64_t used;      // units of work: about a comparison of two partial plans each
  int64_t next_look; // when the clock is read again
  bd_deadline deadline;
  bool late; // it has passed
} bd_layers_meter;

// Counts work; false once there is more than `most` of it, or it is late.
static inline bool bd_layers_spend(bd_layers_meter *meter, int64_t work, int64_t most) {
  enum { LOOK_EVERY = 1 << 17 };
  meter->used += work;
  if (meter->used >= meter->next_look) {
    meter->next_look = meter->used + LOOK_EVERY;
    meter->late = meter->late || bd_deadline_passed(meter->deadline);
  }
  return !meter->late && meter->used <= most;
}
#endif
