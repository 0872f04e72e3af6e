#include "ir/schedule.h"
#include <assert.h>
#include <string.h>

static const char *const names[BD_SCHEDULE_COUNT] = {"gpipe", "1f1b", "interleaved", "zero-bubble"};

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

bool bd_schedule_emitted(bd_schedule schedule) {
  return schedule == BD_SCHEDULE_GPIPE || schedule == BD_SCHEDULE_1F1B;
}

bool bd_schedule_allows(bd_schedule schedule, int stages, int chunks, int64_t micro_batches) {
  if (stages < 1 || chunks < 1 || micro_batches < 1) return false;
  return chunks == 1 || (schedule == BD_SCHEDULE_INTERLEAVED && micro_batches % stages == 0);
}

int bd_schedule_in_flight(bd_schedule schedule, int stage, int stages, int micro_batches) {
  return bd_schedule_held(schedule, stage, stages, 1, micro_batches).tapes;
}

bd_schedule_phases bd_schedule_get_phases(bd_schedule schedule, int stage, int stages,
                                          int micro_batches) {
  assert(bd_schedule_emitted(schedule));
  if (schedule == BD_SCHEDULE_GPIPE) return (bd_schedule_phases){micro_batches, 0, micro_batches};
  int in_flight = bd_schedule_in_flight(schedule, stage, stages, micro_batches);
  int warmup = in_flight - 1;
  return (bd_schedule_phases){warmup, micro_batches - warmup, warmup};
}
