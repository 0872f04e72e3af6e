// What kernels of pools ask of a shape. Along a dimension 31 bits are enough, which takes half as
// many registers.
#ifndef BD_RT_CUDA_MAXPOOL_H
#define BD_RT_CUDA_MAXPOOL_H
#include "runtime/layout.h"

enum { BD_CUDA_POOL_SIDE = 2 }; // a thread makes gradients of so many x so many points

typedef struct bd_cuda_pooling {
  int32_t x[3], y[3], k[3], stride[3], dilation[3], before[3], last;
  int64_t n, c;
} bd_cuda_pooling;

BD_RT_ANYWHERE int64_t bd_cuda_pool_points(const int32_t *extents) {
  return (int64_t)extents[0] * extents[1] * extents[2];
}

// How many blocks of points there are that threads make the gradients of.
BD_RT_ANYWHERE void bd_cuda_pool_blocks(const bd_cuda_pooling *s, int32_t *out) {
  out[0] = s->x[0];
  out[1] = (s->x[1] + BD_CUDA_POOL_SIDE - 1) / BD_CUDA_POOL_SIDE;
  out[2] = (s->x[2] + BD_CUDA_POOL_SIDE - 1) / BD_CUDA_POOL_SIDE;
}
#endif
