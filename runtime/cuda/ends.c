// Where groups of rows end, on the host, which asks for products of as many rows.
//
// It is the one place in a pass where the host waits for the device. No ranks come to wait for each
// other in a circle by it. What the rank's stream has still to do here it has been asked for, and
// that waits for nothing but what was asked for before, of this rank or, in collectives and
// messages, of another. Such a rank may be held up by a wait of its own, which stands before what
// is wanted of it; but then it waits for what comes still earlier in the order in which ranks do
// one thing after another, and decision 12 shows that this order has no circle: a host that waits
// makes a rank do so, which it there is taken to do anyway.
//
// Nothing that another rank needs by then is held back meanwhile. What was told is started first;
// no group of NCCL is open, and its calls have returned, so that what they began goes on by itself;
// of deferred gathers those that are waited for have been asked for; and messages of the pass leave
// at its end in any case.
#include "runtime/cuda/grouping.h"

#include <stdlib.h>
#include <string.h>

enum { EARLY_TURNS = 256 };

void bd_cuda_open_grouping(bd_rt *rt) {
  const size_t bytes = (size_t)rt->stage->most_ends * sizeof(int32_t);
  void *ends = NULL;
  if (bytes == 0) return;
  bd_cuda_grouping *const g = rt->device->grouping = bd_rt_allocate(1, sizeof *g);
  BD_CUDA(cudaMallocHost(&ends, bytes));
  memset(ends, 0, bytes);
  g->ends = ends;
  g->bounds = bd_rt_allocate(1, bytes);
  g->fits = bd_cuda_open_sized_fits();
  bd_cuda_open_fan(rt);
}

void bd_cuda_release_grouping(bd_rt *rt) {
  bd_cuda_grouping *const g = rt->device->grouping;
  if (!g) return;
  bd_cuda_close_fan(rt);
  bd_cuda_close_sized_fits(g->fits);
  free(g->bounds);
  free(g->expected);
  BD_CUDA(cudaFreeHost(g->ends));
  free(g);
  rt->device->grouping = NULL;
}

// The device stands still from when it is done until this is noticed: unlike bd_cuda_settle, this
// never sleeps: every turn is an early one.
static void await(bd_rt *rt, cudaStream_t stream) {
  for (int64_t turn = 1;; turn++) {
    const cudaError_t state = cudaStreamQuery(stream);
    if (state == cudaSuccess) return;
    if (state != cudaErrorNotReady) bd_cuda_check(state, "cudaStreamQuery");
    bd_cuda_rest(rt, turn % EARLY_TURNS);
  }
}

// In a rehearsal there are no ends, and none are looked at: groups are then even.
const int32_t *bd_rt_fetch_ends(bd_rt *rt, int64_t at, const int32_t *ends, int64_t count) {
  const int64_t most = rt->stage->most_ends;
  if (at < 0 || count < 0 || at > most || count > most - at)
    bd_rt_fail(BD_RT_EXIT_INTERNAL, "%lld ends of groups at %lld, of %lld", (long long)count,
               (long long)at, (long long)most);
  if (count == 0) return ends;
  int32_t *const here = rt->device->grouping->ends + at;
  if (rt->device->rehearsing) return here;
  const cudaStream_t stream = bd_cuda_now(rt)->stream;
  BD_CUDA(
      cudaMemcpyAsync(here, ends, (size_t)count * sizeof *ends, cudaMemcpyDeviceToHost, stream));
  await(rt, stream);
  return here;
}

const int32_t *bd_cuda_bounds(bd_rt *rt, const bd_rt_grouped *s, const int32_t *ends) {
  int32_t *const bounds = rt->device->grouping ? rt->device->grouping->bounds : NULL;
  if (s->groups > rt->stage->most_ends)
    bd_rt_fail(BD_RT_EXIT_INTERNAL, "%lld groups, where %lld ends have room", (long long)s->groups,
               (long long)rt->stage->most_ends);
  for (int64_t g = 0; g < s->groups; g++) {
    const int64_t least = g ? bounds[g - 1] : 0;
    const int64_t grains = (bd_rt_least(ends[g], s->rows) + s->grain - 1) / s->grain;
    bounds[g] = (int32_t)(grains * s->grain < least ? least : grains * s->grain);
  }
  return bounds;
}
