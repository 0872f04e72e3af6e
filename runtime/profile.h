// Where the time of a run goes: seconds of each instruction of the program. On GPUs every mark
// waits for the device, so that a profiled run is slower and its times are those of the work alone.
#ifndef BD_RT_PROFILE_H
#define BD_RT_PROFILE_H
#include "runtime/rank.h"

// With --profile, times the steps after the first, or the only one. Returns 0 or a status that all
// ranks agree on.
int bd_rt_profile_open(bd_rt *rt);
void bd_rt_profile_close(bd_rt *rt);
// A step begins; a step is over.
void bd_rt_profile_start(bd_rt *rt);
void bd_rt_profile_stop(bd_rt *rt);
// Collective: calls and seconds of every rank's instructions as JSON. 0, or a status after it has
// been said.
int bd_rt_profile_write(bd_rt *rt, const char *path);
#endif
