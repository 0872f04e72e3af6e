// What a run tells about its memory.
#ifndef BD_RT_REPORT_H
#define BD_RT_REPORT_H
#include "runtime/rank.h"

// Collective, where --report is given: notes what the device has free at BD_RT_MEMORY_READY, ...
void bd_rt_report_note(bd_rt *rt, int moment);
// Collective: bytes per rank as JSON. 0, or a status after it has been said.
int bd_rt_report_write(bd_rt *rt, const char *path);
#endif
