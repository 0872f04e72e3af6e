// What lies at each byte of an arena: the value that was written there last.
#ifndef BD_RECORD_SHADOW_H
#define BD_RECORD_SHADOW_H
#include <stdbool.h>
#include <stdint.h>

enum { RECORD_NOBODY = -1 }; // no value

typedef struct record_piece {
  int64_t start, end;
  int value;
} record_piece;

typedef struct record_shadow {
  int count, capacity;
  record_piece *pieces; // apart, ascending
} record_shadow;

void record_shadow_clear(record_shadow *shadow);
void record_shadow_deinit(record_shadow *shadow);
void record_shadow_set(record_shadow *shadow, int64_t start, int64_t bytes, int value);
// Whether all of the bytes are of `value`; if not, the first that is another's, and whose.
bool record_shadow_holds(const record_shadow *shadow, int64_t start, int64_t bytes, int value,
                         int64_t *out_at, int *out_other);
#endif
