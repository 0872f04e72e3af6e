// What every .cu file needs: its kernels as the host starts them, and their items. A kernel with
// templates has an entry for each case, which says by name what it is made for.
#ifndef BD_RT_CUDA_DEVICE_CUH
#define BD_RT_CUDA_DEVICE_CUH
#include "runtime/cuda/arguments.h"
#include "runtime/half.h"

#include <math.h>

#define BD_ENTRY extern "C" __global__ void
// Where such a kernel stands: its entries have it in them, and what they take by value stays where
// it is.
#define BD_BODY static __forceinline__ __device__ void
#define BD_CODE(file)
#define BD_KERNEL(name, ...) BD_ENTRY bd_k_##name(__VA_ARGS__);
#include "runtime/cuda/kernels.def"
#undef BD_CODE
#undef BD_KERNEL

// Runs the following statement for every item i of [0, count) that falls to this thread.
#define BD_FOR_ITEMS(i, count)                                                                     \
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (count);                    \
       i += (int64_t)gridDim.x * blockDim.x)

// Before a loop that stays one: by itself the compiler writes out the turns of short ones.
// BD_ROOM: of a kernel of which a multiprocessor has so many blocks at least, so that each thread
// may use many registers; in fewer it would not keep all on its way that it reads ahead.
// BD_ROOM_OF: its blocks have so many threads.
#ifdef __CUDACC__
#define BD_ROLLED _Pragma("unroll 1")
#define BD_ROOM_OF(threads, blocks) __launch_bounds__(threads, blocks)
#else
#define BD_ROLLED
#define BD_ROOM_OF(threads, blocks)
#endif
#define BD_ROOM(blocks) BD_ROOM_OF(BD_CUDA_THREADS, blocks)

static inline __device__ int64_t bd_cuda_least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

// The sum, in ascending order, of numbers that are `stride` apart. As many as `ahead` are on their
// way at once, so a thread that adds up alone waits for memory once for them all.
template <int ahead, typename number>
static inline __device__ double bd_cuda_sum(const number *numbers, int64_t count, int64_t stride) {
  double sum = 0;
  number next[ahead];
  int64_t done = 0;
  for (; done + ahead <= count; done += ahead) {
    for (int k = 0; k < ahead; k++)
      next[k] = numbers[(done + k) * stride];
    for (int k = 0; k < ahead; k++)
      sum += (double)next[k];
  }
  if (done == count) return sum;
  for (int k = 0; k < ahead; k++)
    next[k] = numbers[bd_cuda_least(done + k, count - 1) * stride];
  for (int k = 0; k < ahead; k++)
    sum += done + k < count ? (double)next[k] : 0;
  return sum;
}

// The last of `count` members that begins at the item or before: start(i) is where member i does,
// in ascending order, the first of them no later.
template <typename starts>
static inline __device__ int bd_cuda_member_of(int count, int64_t item, starts start) {
  int low = 0, high = count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (start(middle) <= item)
      low = middle;
    else
      high = middle;
  }
  return low;
}
#endif
