// Checks of what ranks send each other: collectives along each axis of a stage's mesh, and messages
// between stages.
#ifndef BD_TESTS_RUNTIME_CHECK_MESSAGES_H
#define BD_TESTS_RUNTIME_CHECK_MESSAGES_H
#include "runtime/braid_rt.h"

// Of every element type, along an axis of `size` ranks.
void check_collectives(bd_rt *rt, int axis, int size);
// Of two stages, each of which calls it; `stage` is this rank's.
void check_pipe(bd_rt *rt, int stage);
#endif
