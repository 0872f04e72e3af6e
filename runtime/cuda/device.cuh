// What every .cu file needs: its items and its launches.
#ifndef BD_RT_CUDA_DEVICE_CUH
#define BD_RT_CUDA_DEVICE_CUH
#include "runtime/cuda/kernels.h"
#include "runtime/half.h"

#include <math.h>

// The only way a kernel is started.
#ifndef BD_LAUNCH
#define BD_LAUNCH(kernel, grid, block, stream, ...) kernel<<<grid, block, 0, stream>>>(__VA_ARGS__)
#endif

// Runs the following statement for every item i of [0, count) that falls to this thread.
#define BD_FOR_ITEMS(i, count)                                                                     \
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (count);                    \
       i += (int64_t)gridDim.x * blockDim.x)

enum { BD_CUDA_AHEAD = 16 }; // numbers that a thread reads before it adds them up, one by one

// Their sum in ascending order. Loads do not wait for each other, so a thread that adds up alone
// waits for memory once for all that it reads ahead.
static inline __device__ double bd_cuda_sum(const double *numbers, int64_t count) {
  double sum = 0, next[BD_CUDA_AHEAD];
  int64_t done = 0;
  for (; done + BD_CUDA_AHEAD <= count; done += BD_CUDA_AHEAD) {
    for (int i = 0; i < BD_CUDA_AHEAD; i++)
      next[i] = numbers[done + i];
    for (int i = 0; i < BD_CUDA_AHEAD; i++)
      sum += next[i];
  }
  for (; done < count; done++)
    sum += numbers[done];
  return sum;
}

static inline int blocks_of(const bd_cuda_queue *queue, int64_t items) {
  const int64_t blocks = (items + BD_CUDA_THREADS - 1) / BD_CUDA_THREADS;
  return (int)(blocks < queue->most_blocks ? blocks : queue->most_blocks);
}
#endif
