// What the parts of the recording back end share.
#ifndef BD_RECORD_BACK_END_H
#define BD_RECORD_BACK_END_H
#include "tests/record/recorder.h"

enum { RECORD_WORKSPACE_BYTES = 4 << 20 };

// Where a message of one stage and tag lies on its way: one of several places that take turns.
typedef struct record_slot {
  int stage, tag, used;
  int next; // in the first of them: which is the oldest
  int64_t offset, bytes;
} record_slot;

// Where messages come from: those of a pass begin with one tag.
typedef struct record_source {
  bool known;
  int first_tag, passes;
} record_source;

struct bd_rt_device {
  const record_sink *sink; // NULL: a step is rehearsed
  record_ways ways;
  bool keeps_order; // of communicators, so that work may run beside
  int instruction;
  int prefetch;         // the handle of one that begins, or 0
  bool aside, unjoined; // work is told to run beside; some has not been waited for
  bool unposted;        // messages have been sent that leave together with the next one
  int slot_count;
  record_slot slots[RECORD_MOST_SLOTS];
  int64_t send_used;
  record_source *sources; // by stage
  // Places for the ends of groups on the host, and by place where in the arena those came from.
  int32_t *ends;
  const int32_t **ends_from;
};

record_operand record_reads(const bd_rt *rt, const void *data, int64_t bytes);
record_operand record_writes(const bd_rt *rt, const void *data, int64_t bytes);
record_operand record_updates(const bd_rt *rt, const void *data, int64_t bytes);
// What products have of the library segment, and what everything else has, beside bd_rt_workspace.
// Memory that the event alone uses.
record_operand record_uses(const bd_rt *rt, const void *data, int64_t bytes);
record_operand record_library(const bd_rt *rt);
record_operand record_room(const bd_rt *rt);
// Fills in the instruction and passes the event on.
void record_tell(const bd_rt *rt, record_event event);
// An event with these operands and nothing else.
void record_work(const bd_rt *rt, record_kind kind, int count, record_operand *operands);
#define RECORD_WORK(rt, kind, ...)                                                                 \
  record_work(rt, kind, sizeof((record_operand[]){__VA_ARGS__}) / sizeof(record_operand),          \
              (record_operand[]){__VA_ARGS__})
#endif
