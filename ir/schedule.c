#include "ir/schedule.h"
#include <assert.h>
#include <string.h>

static const char *const names[BD_SCHEDULE_COUNT] = {"gpipe", "1f1b"};

const char *bd_schedule_name(bd_schedule schedule) {
  assert(schedule < BD_SCHEDULE_COUNT);
  return names[schedule];
}

bool bd_schedule_parse(const char *name, bd_schedule *out_schedule) {
  for (int i = 0; i < BD_SCHEDULE_COUNT; ++i)
    if (strcmp(name, names[i]) == 0) {
      *out_schedule = (bd_schedule)i;
      return true;
    }
  return false;
}

int bd_schedule_in_flight(bd_schedule schedule, int stage, int stages, int micro_batches) {
  assert(stage >= 0 && stage < stages && micro_batches > 0);
  int depth = stages - stage;
  return schedule == BD_SCHEDULE_1F1B && depth < micro_batches ? depth : micro_batches;
}

bd_schedule_phases bd_schedule_get_phases(bd_schedule schedule, int stage, int stages,
                                          int micro_batches) {
  if (schedule == BD_SCHEDULE_GPIPE) return (bd_schedule_phases){micro_batches, 0, micro_batches};
  int in_flight = bd_schedule_in_flight(schedule, stage, stages, micro_batches);
  int warmup = in_flight - 1;
  return (bd_schedule_phases){warmup, micro_batches - warmup, warmup};
}
