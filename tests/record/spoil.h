// Faults put into a rank's record on purpose, between the recorder and the checks.
#ifndef BD_RECORD_SPOIL_H
#define BD_RECORD_SPOIL_H
#include "tests/record/recorder.h"

typedef struct record_spoil record_spoil;

// `sink` gets what `out_sink` is told, spoiled as `what` says. NULL: there is no such spoil.
record_spoil *record_spoil_create(const char *what, const record_sink *sink,
                                  const record_sink **out_sink);
// Whether a place for it was found.
bool record_spoil_done(const record_spoil *spoil);
void record_spoil_destroy(record_spoil *spoil);
#endif
