// What a rank asks of its back end, one event after another.
#ifndef BD_RECORD_EVENT_H
#define BD_RECORD_EVENT_H
#include "runtime/backend.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum record_kind {
  // Another instruction of the program begins, or (RECORD_EVALUATES) an evaluation; no work.
  RECORD_MARK,
  // Work of a stage program.
  RECORD_LAUNCH, // of a generated kernel
  RECORD_MATMUL,
  RECORD_EMBED_DW,
  RECORD_CONV,
  RECORD_CONV_DX,
  RECORD_CONV_DW,
  RECORD_MAXPOOL,
  RECORD_MAXPOOL_GRAD,
  RECORD_ZERO,
  RECORD_COPY,
  RECORD_TOKENS,
  RECORD_TARGETS,
  RECORD_REALS,
  RECORD_LOSS_GRADIENT,
  RECORD_ADD_LOSS,
  RECORD_SHARD,
  // Work of a step's end.
  RECORD_ADD,
  RECORD_SQUARE_SUM,
  RECORD_APPLY,
  RECORD_NARROW,
  RECORD_WINDOW,
  RECORD_CLEAR_PADDING,
  // Between ranks.
  RECORD_ALL_REDUCE,
  RECORD_ALL_GATHER,
  RECORD_REDUCE_SCATTER,
  RECORD_ALL_TO_ALL,
  RECORD_SUM_RANKS, // of host values, over all ranks
  RECORD_SEND,      // begins; a wait ends it
  RECORD_RECEIVE,   // begins and ends
  RECORD_WAIT,      // for the message `handle`
  // Samples' integers; behind the others, whose numbers are part of the digests.
  RECORD_IDS,
  RECORD_ATTEND, // of the library
  RECORD_FETCH,  // of the ends of groups, to the host
  RECORD_GROUPED_ROWS,
  RECORD_GROUPED_WEIGHTS,
  RECORD_MIRROR, // between ranks
  RECORD_KINDS
} record_kind;
const char *record_kind_name(record_kind kind);

typedef enum record_access {
  RECORD_READ,
  RECORD_WRITE,
  RECORD_UPDATE,  // of what is there
  RECORD_SCRATCH, // written and read by the event alone
} record_access;

enum { RECORD_SIZE_UNKNOWN = -1, RECORD_SHAPE = 5 };

// Of messages the number of their slot; of those without a tag, and of all that runs beside other
// work, in an order of its own, one number.
enum {
  RECORD_NO_HANDLE = -1,
  RECORD_MOST_SLOTS = 1024,
  RECORD_GIVEN = RECORD_MOST_SLOTS,
  RECORD_ASIDE,
  RECORD_PREFETCH,                                      // and one for each further slot
  RECORD_DEFERRED = RECORD_PREFETCH + BD_RT_PREFETCHES, // those of the runtime's own
  RECORD_HANDLES = RECORD_PREFETCH + BD_RT_SLOTS,
};

typedef struct record_operand {
  record_access access;
  int64_t start, bytes; // in the arena; launches do not know how many bytes
} record_operand;

// What all members of a collective, or both ends of a message, must agree on.
typedef struct record_terms {
  record_kind kind; // of a message: RECORD_SEND at both ends
  int32_t dtype, combiner, swapped, tag;
  int32_t line;                // of messages: which of their direction's
  int64_t shape[RECORD_SHAPE]; // of a message: its bytes
} record_terms;

bool record_same_terms(const record_terms *a, const record_terms *b);

typedef struct record_event {
  record_kind kind;
  int instruction; // the mark that it follows
  int number;      // of a launched kernel
  int mask;        // collectives: mesh axes of the group
  int stage;       // messages: the other end
  int handle;      // messages and collectives that are waited for
  bool alone;      // a send that does not leave together with the one before it
  record_terms terms;
  int range_count; // launches: first index and count of each loop
  const int64_t *ranges;
  int operand_count;
  record_operand *operands;
} record_event;

static inline bool record_is_collective(record_kind kind) {
  return (kind >= RECORD_ALL_REDUCE && kind <= RECORD_SUM_RANKS) || kind == RECORD_MIRROR;
}
static inline bool record_is_message(record_kind kind) {
  return kind == RECORD_SEND || kind == RECORD_RECEIVE;
}

// Continues a digest of 64 bits, which tells records apart that differ by accident.
#define RECORD_DIGEST_START UINT64_C(0xcbf29ce484222325)
uint64_t record_digest_terms(uint64_t digest, const record_terms *terms);
uint64_t record_digest(uint64_t digest, const record_event *event);
#endif
