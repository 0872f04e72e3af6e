// The spoils themselves, and what they know of the record so far.
#ifndef BD_RECORD_SPOIL_RULES_H
#define BD_RECORD_SPOIL_RULES_H
#include "tests/record/group.h"
#include "tests/record/spoil.h"

typedef struct record_rule record_rule;

typedef struct record_move { // what may be moved onto what
  int64_t from, to;
} record_move;

struct record_spoil {
  const record_sink *inner;
  record_sink sink;
  const record_rule *rule;
  const bd_rt *rt;
  bool done;
  record_group held; // an event that waits for another to overtake it
  int64_t last;      // where a value was written into the workspace; -1: nowhere
  bool read;         // somebody has read it
  record_move moved; // to -1: nothing
};

// What becomes of an event.
typedef enum record_verdict {
  PASSES,
  DROPPED,
  HELD, // in the place of the one held before
  HELD_TOO
} record_verdict;

struct record_rule {
  const char *name;
  record_verdict (*apply)(record_spoil *spoil, record_event *event);
  bool (*enter)(const bd_rt *rt); // before all events, or NULL
  bool of_all;                    // on every rank, not on the first alone
};

// The spoil of this name, or NULL.
const record_rule *record_rule_find(const char *name);
// Hands an event to the checks.
void record_spoil_pass(const record_spoil *spoil, record_event *event);
#endif
