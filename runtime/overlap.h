// What ranks exchange beside other work: gradients are summed while backward goes on, updated parts
// of weights are gathered while other weights are updated. Several at once make a bucket, which
// starts when it is full.
#ifndef BD_RT_OVERLAP_H
#define BD_RT_OVERLAP_H
#include "runtime/rank.h"

// By bd_rt_open, once the ranks have met; without memory the job ends.
void bd_rt_overlap_open(bd_rt *rt);
void bd_rt_overlap_close(bd_rt *rt);
// A step begins: no gradient has been summed, nothing but what is deferred is under way.
void bd_rt_overlap_new_step(bd_rt *rt);
// Whether the sum of a weight's use is under way or done.
bool bd_rt_overlap_summed(const bd_rt *rt, const bd_rt_weight *weight, int use);
// The weight's parts reach those that share its update (see bd_rt_gather_weight) until
// bd_rt_overlap_wait, or are deferred (runtime/deferred.h).
void bd_rt_overlap_gather(bd_rt *rt, const bd_rt_weight *weight);
// What has been told of so far is asked for, though the bucket is not full.
void bd_rt_overlap_start(bd_rt *rt);
// All that was begun beside, and is not deferred, is done before what is asked from here on.
void bd_rt_overlap_wait(bd_rt *rt);
#endif
