// The events of one instruction, kept until all are there.
#ifndef BD_RECORD_GROUP_H
#define BD_RECORD_GROUP_H
#include "tests/record/event.h"

typedef struct record_group {
  int count, capacity;
  record_event *events;
  int operand_count, operand_capacity;
  record_operand *operands;
  int range_count, range_capacity;
  int64_t *ranges;
} record_group;

// Copies the event.
void record_group_add(record_group *group, const record_event *event);
// Lets the copies point at theirs; nothing is added before the group is cleared.
void record_group_close(record_group *group);
void record_group_clear(record_group *group);
void record_group_deinit(record_group *group);
#endif
