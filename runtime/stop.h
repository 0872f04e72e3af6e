// Being told to stop: SIGTERM and SIGUSR1, which launchers and batch systems send some time before
// they end a run.
#ifndef BD_RT_STOP_H
#define BD_RT_STOP_H
#include "runtime/rank.h"

// From here on these signals are noted instead of ending the process.
void bd_rt_stop_watch(void);
// Collective: whether any rank has been told.
int bd_rt_stop_asked(bd_rt *rt);
#endif
