// What every .cu file needs: its items, its launches, and bf16 as bits.
#ifndef BD_RT_CUDA_DEVICE_CUH
#define BD_RT_CUDA_DEVICE_CUH
#include "runtime/cuda/kernels.h"

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

static __device__ inline float of_bf16(uint16_t bits) {
  union {
    uint32_t bits;
    float value;
  } wide = {(uint32_t)bits << 16};
  return wide.value;
}

// To nearest, ties to even; what is no number stays none.
static __device__ inline uint16_t to_bf16(float value) {
  union {
    float value;
    uint32_t bits;
  } wide = {value};
  const uint32_t up = wide.bits + 0x7FFF + (wide.bits >> 16 & 1);
  const uint32_t quiet = wide.bits | 0x400000;
  return (uint16_t)(((wide.bits & 0x7FFFFFFF) > 0x7F800000 ? quiet : up) >> 16);
}
#endif
