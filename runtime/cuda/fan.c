// A product of few tiles keeps few multiprocessors busy, and a hundred of them one after another
// leave most of the device idle. So they run in several streams, which fork from the rank's own and
// join it. What each of them computes does not depend on that: all have equal parts of the library
// segment, whichever streams there are.
//
// They add nothing that ranks could wait for in a circle: a fork waits for what was asked for
// before it, and what is asked for later waits for the join. That holds where streams share one of
// the device's queues, too.
#include "runtime/cuda/grouping.h"

// What a block computes of a product at a time, at most, in cuBLASLt's kernels for large ones.
enum { TILE_ROWS = 128, TILE_COLUMNS = 256 };

void bd_cuda_open_fan(bd_rt *rt) {
  bd_cuda_grouping *const g = rt->device->grouping;
  BD_CUDA(cudaEventCreateWithFlags(&g->forked, cudaEventDisableTiming));
  for (int i = 1; i < BD_CUDA_FAN; i++) {
    bd_cuda_open_stream(&g->beside[i], 0);
    BD_CUDA(cudaEventCreateWithFlags(&g->joined[i], cudaEventDisableTiming));
  }
}

void bd_cuda_close_fan(bd_rt *rt) {
  bd_cuda_grouping *const g = rt->device->grouping;
  BD_CUDA(cudaEventDestroy(g->forked));
  for (int i = 1; i < BD_CUDA_FAN; i++) {
    BD_CUDA(cudaStreamDestroy(g->beside[i]));
    BD_CUDA(cudaEventDestroy(g->joined[i]));
  }
}

// One that has a tile for every multiprocessor fills the device by itself: beside it another would
// only wait, and have less of the segment.
int bd_cuda_is_small(const bd_rt *rt, int64_t rows, int64_t columns) {
  const int64_t tiles =
      (rows + TILE_ROWS - 1) / TILE_ROWS * ((columns + TILE_COLUMNS - 1) / TILE_COLUMNS);
  return tiles < rt->device->processors;
}

int bd_cuda_fan_out(bd_rt *rt, int64_t items) {
  bd_cuda_grouping *const g = rt->device->grouping;
  g->streams = (int)bd_rt_least(items, rt->device->launcher.no_fan ? 1 : BD_CUDA_FAN);
  if (g->streams > 1) BD_CUDA(cudaEventRecord(g->forked, bd_cuda_now(rt)->stream));
  for (int i = 1; i < g->streams; i++)
    BD_CUDA(cudaStreamWaitEvent(g->beside[i], g->forked, 0));
  return g->streams;
}

cudaStream_t bd_cuda_fan_stream(bd_rt *rt, int number) {
  return number == 0 ? bd_cuda_now(rt)->stream : rt->device->grouping->beside[number];
}

void bd_cuda_fan_in(bd_rt *rt) {
  bd_cuda_grouping *const g = rt->device->grouping;
  for (int i = 1; i < g->streams; i++) {
    BD_CUDA(cudaEventRecord(g->joined[i], g->beside[i]));
    BD_CUDA(cudaStreamWaitEvent(bd_cuda_now(rt)->stream, g->joined[i], 0));
  }
  g->streams = 0;
}
