// Accumulators of gradients that need no zeros, because the first that a step does with them is a
// product that writes them whole.
#ifndef BD_RT_CUDA_FRESH_H
#define BD_RT_CUDA_FRESH_H
#include "runtime/cuda/rt.h"

// While rehearsing: lists the stage's accumulators, before the step is walked.
void bd_cuda_fresh_open(bd_rt *rt);
void bd_cuda_release_fresh(bd_rt *rt);

// While rehearsing: something is done with what lies at `at`.
void bd_cuda_fresh_touch(bd_rt *rt, const void *at);
// Something adds to `elements` one after another at `at`, or overwrites them: returns whether it is
// to add. While rehearsing, notes it.
int bd_cuda_fresh_adds(bd_rt *rt, const void *at, int64_t elements);
#endif
