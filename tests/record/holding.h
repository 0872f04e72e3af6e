// What a rank's arena holds: buffers that outlive a step, values, and what is under way.
#ifndef BD_RECORD_HOLDING_H
#define BD_RECORD_HOLDING_H
#include "runtime/rank.h"
#include "tests/record/event.h"
#include "tests/record/expect.h"
#include "tests/record/faults.h"
#include "tests/record/shadow.h"

// A buffer that outlives a step: a weight, an accumulator of its gradient, its states, or one of
// the runtime's own.
typedef struct record_buffer {
  int64_t start, bytes;
  int value;  // its number; beyond those of the expectation: of states and of the runtime
  int weight; // of the stage, or -1
  bool gradient;
} record_buffer;

enum { RECORD_MOST_UNDER_WAY = 4096 };
typedef struct record_under_way {
  int handle;
  record_operand operand;
} record_under_way;

// Where in the record something is found.
typedef struct record_place {
  int step, pass, instruction; // pass: of the expectation; -1 outside of the passes
  const char *name;            // of the work
} record_place;

typedef struct record_holding {
  const record_expectation *e;
  const bd_rt *rt;
  record_faults *faults;
  record_shadow shadow;
  int64_t *address; // per value, or -1
  int buffer_count;
  record_buffer *buffers;      // ascending
  int library, sends, scratch; // values of the runtime's
  int under_way_count;
  record_under_way under_way[RECORD_MOST_UNDER_WAY];
  record_place place;
  char where[160]; // the place in words
} record_holding;

// 0, or -1 without memory. Weights and states are there, gradients are not.
int record_holding_init(record_holding *h, const record_expectation *e, const bd_rt *rt,
                        record_faults *faults);
void record_holding_deinit(record_holding *h);
// A step begins: values of micro-batches and gradients are gone.
void record_holding_new_step(record_holding *h);

// "rank 3, step 0, F2, instruction 9 (all_gather)"
const char *record_where(record_holding *h);

// The buffer around a range, or NULL.
const record_buffer *record_holding_find(const record_holding *h, int64_t start, int64_t bytes);
const char *record_holding_name(const record_holding *h, int value, char *out, int size);
// Whether the value is at the range, whole.
bool record_holding_has(const record_holding *h, int value, int64_t start, int64_t bytes);
// It is. False after a fault.
bool record_holding_read(record_holding *h, int value, int64_t start, int64_t bytes);
void record_holding_write(record_holding *h, int value, int64_t start, int64_t bytes);
// The event's operands lie in the arena and clash with nothing that is under way; then what it
// begins or waits for is noted.
void record_holding_touch(record_holding *h, const record_event *event);
#endif
