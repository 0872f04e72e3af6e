// What a rank with a GPU tells of its time: events in its streams, and NVTX ranges for Nsight.
#include "runtime/cuda/rt.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

// The header loads whatever tool listens by itself; without one a range costs a call. A toolkit
// without it leaves the ranges out.
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define HAS_NVTX 1
#else
#define HAS_NVTX 0
#endif

enum { WATCH_TURNS = 256 };

int bd_rt_stamps_open(bd_rt *rt) {
  bd_rt_device *const device = rt->device;
  device->stamps = calloc(BD_RT_STAMPS, sizeof *device->stamps);
  if (!device->stamps) return BD_RT_EXIT_EXTERNAL;
  for (int i = 0; i < BD_RT_STAMPS; i++)
    if (cudaEventCreateWithFlags(&device->stamps[i], cudaEventDefault) != cudaSuccess)
      return BD_RT_EXIT_EXTERNAL;
  return 0;
}

void bd_rt_stamps_close(bd_rt *rt) {
  bd_rt_device *const device = rt->device;
  for (int i = 0; device->stamps && i < BD_RT_STAMPS; i++)
    if (device->stamps[i]) BD_CUDA(cudaEventDestroy(device->stamps[i]));
  free(device->stamps);
  device->stamps = NULL;
}

void bd_rt_stamp(bd_rt *rt, int stamp, void *queue) {
  BD_CUDA(cudaEventRecord(rt->device->stamps[stamp],
                          queue ? (cudaStream_t)queue : bd_cuda_now(rt)->stream));
}

static void await(bd_rt *rt, cudaEvent_t event) {
  for (int64_t turn = 1;; turn++) {
    const cudaError_t state = cudaEventQuery(event);
    if (state == cudaSuccess) return;
    if (state != cudaErrorNotReady) bd_cuda_check(state, "cudaEventQuery");
    if (turn % WATCH_TURNS == 0) bd_cuda_watch(rt);
    sched_yield();
  }
}

void bd_rt_stamps_read(bd_rt *rt, int count, double *seconds) {
  const cudaEvent_t *const stamps = rt->device->stamps;
  for (int i = 0; i < count; i++) {
    float millis = 0;
    await(rt, stamps[i]);
    BD_CUDA(cudaEventElapsedTime(&millis, stamps[0], stamps[i]));
    seconds[i] = 1e-3 * (double)millis;
  }
}

// Of the ranges that lie in no other: their work is gathered and started together.
static int is_whole(int what) {
  return what == BD_RT_STEP || what == BD_RT_EVALUATION;
}

void bd_rt_annotate(bd_rt *rt, int what, int64_t number) {
  static const char *const names[] = {"step",   "forward", "backward",  "layer",
                                      "reduce", "update",  "evaluation"};
  char text[64];
  if (rt->device->rehearsing) return;
  if (rt->device->range_depth == BD_CUDA_MOST_RANGES)
    bd_rt_fail(BD_RT_EXIT_INTERNAL, "ranges lie in each other too deep");
  if (is_whole(what)) bd_cuda_begin_step(rt);
  if (what != BD_RT_LAYER) bd_cuda_now(rt); // passes are segments of their own
  rt->device->ranges[rt->device->range_depth++] = what;
  if (is_whole(what))
    snprintf(text, sizeof text, "stage %d, %s %lld", rt->stage_index, names[what],
             (long long)number);
  else if (what == BD_RT_REDUCE || what == BD_RT_UPDATE)
    snprintf(text, sizeof text, "%s", names[what]);
  else
    snprintf(text, sizeof text, "%s %lld", names[what], (long long)number);
#if HAS_NVTX
  nvtxRangePushA(text);
#endif
}

void bd_rt_annotate_end(bd_rt *rt) {
  if (rt->device->rehearsing) return;
  const int what = rt->device->ranges[--rt->device->range_depth];
  if (what != BD_RT_LAYER) bd_cuda_now(rt);
  if (is_whole(what)) bd_cuda_end_step(rt);
#if HAS_NVTX
  nvtxRangePop();
#endif
}
