// Memory that the ranks' back end works on: the host's, or a device's where CHECK_DEVICE is
// defined.
#ifndef BD_TESTS_RUNTIME_MEMORY_H
#define BD_TESTS_RUNTIME_MEMORY_H
#include "runtime/backend.h"

#include <stddef.h>

extern bd_rt *check_rank;          // whose memory it is
extern const int check_rehearsals; // steps that are walked without effect before the first

// To or from memory of the back end, after all that was asked of it.
void check_copy(void *to, const void *from, size_t bytes);
// After all that was asked of a device: work may not have been started yet.
void check_free(void *memory);

// A copy of `data` for the back end.
void *check_hold(const void *data, size_t bytes);
// Brings the content back to `data` and frees what was held.
void check_fetch(void *held, void *data, size_t bytes);
#endif
