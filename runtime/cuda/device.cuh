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

static inline int blocks_of(const bd_cuda_queue *queue, int64_t items) {
  const int64_t blocks = (items + BD_CUDA_THREADS - 1) / BD_CUDA_THREADS;
  return (int)(blocks < queue->most_blocks ? blocks : queue->most_blocks);
}
#endif
