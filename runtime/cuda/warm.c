// A product of each class of sizes runs once before the first step.
//
// A library loads a kernel when it is first wanted, and that may wait for what the device does. A
// size that comes in a later step would then wait, with its rank, for collectives and messages that
// have begun, and these for other ranks, of which one may do the same: in a circle. So kernels
// are loaded while there is no communicator yet, but for a size that the library refuses its
// class's algorithm, which has its own. It also takes the memory for them, and asks the
// library for algorithms, when nothing is in a hurry.
#include "runtime/cuda/grouping.h"

#include <stdlib.h>

void bd_cuda_expect_sized(bd_rt *rt, const bd_cuda_sized *largest) {
  bd_cuda_grouping *const g = rt->device->grouping;
  for (int i = 0; i < g->expected_count; i++)
    if (bd_cuda_sized_alike(rt, &g->expected[i], largest)) {
      g->expected[i].least = bd_rt_least(g->expected[i].least, largest->least);
      return;
    }
  bd_cuda_sized *const all =
      realloc(g->expected, ((size_t)g->expected_count + 1) * sizeof *g->expected);
  if (!all) bd_rt_fail(BD_RT_EXIT_EXTERNAL, "out of memory");
  g->expected = all;
  g->expected[g->expected_count++] = *largest;
}

void bd_cuda_run_expected(bd_rt *rt) {
  bd_cuda_grouping *const g = rt->device->grouping;
  if (!g) return;
  const cudaStream_t stream = bd_cuda_now(rt)->stream;
  for (int i = 0; i < g->expected_count; i++) {
    const int64_t most = bd_cuda_sized_size(&g->expected[i]);
    for (int64_t size = g->expected[i].least; size <= most; size = bd_cuda_size_class(size) + 1) {
      bd_cuda_sized z = g->expected[i];
      bd_cuda_sized_set(rt, &z, bd_rt_least(bd_cuda_size_class(size), most));
      bd_cuda_sized_start(rt, &z, stream, 0);
    }
  }
  bd_cuda_settle(rt, stream);
  free(g->expected);
  g->expected = NULL;
  g->expected_count = 0;
}
