// Where the time of a run goes: seconds of each instruction of the program over the steps after the
// first, and a trace of the last step. Moments are noted on the device's own clock, in the order of
// its work, which does not wait for them.
#ifndef BD_RT_PROFILE_H
#define BD_RT_PROFILE_H
#include "runtime/trace.h"

// With --profile, times the steps after the first, or the only one. Returns 0 or a status that all
// ranks agree on.
int bd_rt_profile_open(bd_rt *rt);
void bd_rt_profile_close(bd_rt *rt);
// A step begins, on all ranks at once; a step is over.
void bd_rt_profile_start(bd_rt *rt);
void bd_rt_profile_stop(bd_rt *rt);
// A message to or from another stage, what runs beside other work, or the instruction of now, a
// collective that does, begins and ends among the work of `queue` (see bd_rt_stamp).
void bd_rt_profile_message(bd_rt *rt, bd_rt_thread thread, int stage, int tag, int64_t bytes,
                           void *queue);
void bd_rt_profile_aside(bd_rt *rt, void *queue);
void bd_rt_profile_collective(bd_rt *rt, void *queue);
void bd_rt_profile_queued_end(bd_rt *rt, void *queue);
// Collective: a trace of the last step on the axes of `braid simulate --trace`, and calls and
// seconds of every rank's instructions, as one JSON object. 0, or a status after it has been said.
int bd_rt_profile_write(bd_rt *rt, const char *path);
#endif
