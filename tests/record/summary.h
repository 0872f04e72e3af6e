// What ranks did, in few words: of each stage the order of its passes, how often each kind of event
// came and how many bytes it touched, and a digest of all ranks' events in full.
#ifndef BD_RECORD_SUMMARY_H
#define BD_RECORD_SUMMARY_H
#include "tests/record/event.h"
#include "tests/record/talk.h"

#include <stdio.h>

typedef struct record_summary record_summary;

record_summary *record_summary_create(const record_world *world);
void record_summary_destroy(record_summary *summary);
// Ranks come one after another.
void record_summary_begin(record_summary *summary, int rank, int64_t arena_bytes);
void record_summary_take(record_summary *summary, const record_event *event);
// `name` of a phase of the first step that begins: "F0".
void record_summary_phase(record_summary *summary, const char *name);
void record_summary_print(const record_summary *summary, FILE *stream);
#endif
