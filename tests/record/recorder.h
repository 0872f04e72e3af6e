// A back end of the runtime that does nothing and tells what it was asked to do: a program for GPUs
// runs as any of its ranks, alone, with an arena that has addresses and no memory. It asks for what
// runtime/cuda does: a message is copied to a slot of the send segment, from where it leaves
// while the rank goes on; products and collectives use the library segment.
#ifndef BD_RECORD_RECORDER_H
#define BD_RECORD_RECORDER_H
#include "runtime/rank.h"
#include "tests/record/event.h"

// In the place of an instruction: an evaluation begins, which ends with a sum over ranks.
enum { RECORD_EVALUATES = -1 };

typedef struct record_sink {
  void (*begin)(void *args, const bd_rt *rt); // the rank has found its place
  void (*take)(void *args, record_event *event);
  void (*end)(void *args); // it has done all
  void *args;
} record_sink;

// What a back end may do in another way than by default.
typedef struct record_ways {
  bool apart;     // products do nothing besides
  bool attention; // is the library's, where it may be
  bool alone;     // nothing runs beside other work
  bool evaluates; // before the first step and after each, over two batches
} record_ways;

// Trains `steps` steps as rank `rank`; `program` is the emitted main. Returns its status.
int record_rank(int (*program)(int argc, char **argv), int rank, int steps, const record_ways *ways,
                const record_sink *sink);
#endif
