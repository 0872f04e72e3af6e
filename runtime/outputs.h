// The files that a run writes.
#ifndef BRAID_RT_OUTPUTS_H
#define BRAID_RT_OUTPUTS_H
#include "runtime/options.h"

// Whether --metrics, --save and --report can be written and none of them is another or the data,
// asked before training so that its end does not fail. Returns 0, or a BD_RT_EXIT status and a
// message.
int bd_rt_outputs_check(const bd_rt_options *options, char *message, size_t size);
#endif
