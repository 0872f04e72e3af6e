// Pipeline schedules: the order of forward and backward passes on a stage, and what is in flight.
#ifndef BD_IR_SCHEDULE_H
#define BD_IR_SCHEDULE_H
#include "ir/base/context.h"

typedef enum bd_schedule { BD_SCHEDULE_GPIPE, BD_SCHEDULE_1F1B, BD_SCHEDULE_COUNT } bd_schedule;
const char *bd_schedule_name(bd_schedule schedule); // "gpipe", "1f1b"
bool bd_schedule_parse(const char *name, bd_schedule *out_schedule);

// Most micro-batches whose tapes stage `stage` of `stages` holds at once. GPipe: all; 1F1B:
// min(micro_batches, stages - stage) (Narayanan et al. 2021, section 2.2).
int bd_schedule_in_flight(bd_schedule schedule, int stage, int stages, int micro_batches);

// A stage's work is: `warmup` forwards, then `steady` pairs (forward, backward), then `cooldown`
// backwards; micro-batches ascend in both directions. GPipe: warmup = all, steady = 0.
typedef struct bd_schedule_phases {
  int warmup, steady, cooldown;
} bd_schedule_phases;
bd_schedule_phases bd_schedule_get_phases(bd_schedule schedule, int stage, int stages,
                                          int micro_batches);
#endif
