// Products of halves along uneven extents.
#ifndef BD_RT_CUDA_EVEN_H
#define BD_RT_CUDA_EVEN_H
#include "runtime/braid_rt.h"

// A part of a product: its shape, and where its operands begin, in elements; `n` is where its bias
// does.
typedef struct bd_cuda_part {
  bd_rt_gemm shape;
  int64_t a, b, out, n;
} bd_cuda_part;

// The parts that a product is computed in, one after another: one, or two where elements that lie
// side by side along an extent are no multiple of 16 bytes, though their rows begin at such
// addresses: all but the last few, for which cuBLASLt has its fast kernels (its manual, "Tensor
// Core Usage"), and these. Of a sum the last few terms come first, and are rounded as the product
// is.
int bd_cuda_even_parts(const bd_rt_gemm *shape, bd_cuda_part out_parts[2]);
#endif
