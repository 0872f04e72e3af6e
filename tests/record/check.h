// One rank's record against what its stage must do. Every value is followed through memory: what an
// instruction reads must be there still, whole, as the value's own instruction wrote it; nothing
// touches the buffers of a message or a collective that is under way.
#ifndef BD_RECORD_CHECK_H
#define BD_RECORD_CHECK_H
#include "runtime/rank.h"
#include "tests/record/event.h"
#include "tests/record/expect.h"
#include "tests/record/faults.h"

typedef struct record_check record_check;

// Where events go once their operands are known in full, with the pass that they belong to.
typedef struct record_next {
  void (*take)(void *args, const record_event *event);
  // Pass `pass` of the expectation begins; RECORD_CLEAR and RECORD_END: what surrounds the passes.
  void (*phase)(void *args, int pass);
  void *args;
} record_next;
enum { RECORD_CLEAR = -1, RECORD_END = -2 };

// `e` and `rt` are borrowed until record_check_end. NULL: out of memory.
record_check *record_check_begin(const record_expectation *e, const bd_rt *rt,
                                 record_faults *faults, const record_next *next);
void record_check_take(record_check *check, const record_event *event);
// The rank has done all its steps.
void record_check_end(record_check *check);
#endif
