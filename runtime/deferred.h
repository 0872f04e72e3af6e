// Gathers of updated weights that go on into the next step: its first forward pass waits for each
// before it reads it, and they come in the order in which it does. Some at once make a bucket.
#ifndef BD_RT_DEFERRED_H
#define BD_RT_DEFERRED_H
#include "runtime/rank.h"

// With the stage's weights known, before any step; without memory the job ends.
void bd_rt_deferred_open(bd_rt *rt);
void bd_rt_deferred_close(bd_rt *rt);
// Whether the weight's gather is deferred. The same on all ranks of the stage.
bool bd_rt_defers(const bd_rt *rt, const bd_rt_weight *weight);
// Its part is updated: the gather begins in its turn, and is waited for when the next step reads
// the weight.
void bd_rt_deferred_take(bd_rt *rt, const bd_rt_weight *weight);
// All that is deferred is asked for and done before what is asked from here on.
void bd_rt_deferred_finish(bd_rt *rt);
#endif
