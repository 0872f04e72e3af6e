// What all ranks of a program say to each other: collectives of every group agree in order, kind,
// type and size, messages are received in the order and size in which they were sent, and nobody
// waits for ever.
#ifndef BD_RECORD_TALK_H
#define BD_RECORD_TALK_H
#include "tests/record/event.h"
#include "tests/record/faults.h"

enum { RECORD_MOST_AXES = 4 };

typedef struct record_world {
  int stages, axes, mesh[RECORD_MOST_AXES];
} record_world;
int record_world_devices(const record_world *world); // of a stage
int record_world_ranks(const record_world *world);

typedef struct record_talk record_talk;

// `in_order`: what a rank asks for begins when what it has asked for before has begun. NULL: out of
// memory.
record_talk *record_talk_create(const record_world *world, bool in_order);
void record_talk_destroy(record_talk *talk);
// Events of a rank in their order; those that concern no other rank are passed over.
void record_talk_take(record_talk *talk, int rank, const record_event *event);
// Runs all ranks against each other. A collective waits for its group, a receiver for its message,
// a wait for the message to be received; a sender goes on. What leaves together is there when the
// last of it is sent.
void record_talk_check(record_talk *talk, record_faults *faults);
#endif
