// Products whose size differs from call to call, as that of a group of rows does.
//
// cuBLASLt's heuristic is asked for few sizes: one takes the algorithm of the class that it is in
// where the library takes that for it, else one of its own. Either follows from the size and the
// shape, and from nothing that was multiplied before: equal calls give equal bits.
#ifndef BD_RT_CUDA_SIZED_H
#define BD_RT_CUDA_SIZED_H
#include "runtime/cuda/product.h"

// What differs of a product: m, its rows, or k, the terms of its sums.
typedef enum bd_cuda_extent { BD_CUDA_ROWS, BD_CUDA_TERMS } bd_cuda_extent;

// One product, of one batch; out has stride 1 along n. Rows are a's and out's, and a lies along k;
// terms lie one row after another in a and in b, or, in 8 bits, side by side. Factors in 8 bits
// have been rounded, and then sizes are multiples of BD_RT_F8_GRAIN.
typedef struct bd_cuda_sized {
  bd_rt_gemm shape;
  bd_cuda_extent extent;
  int64_t least, most;            // of all sizes; no class is larger
  const float *a_scale, *b_scale; // in 8 bits: what bd_cuda_product_set_scales takes; else NULL
  int32_t sharers;                // see bd_cuda_product_key
  // Bytes that addresses are multiples of, of all such products: were it of one, its algorithm
  // would depend on where a group begins.
  int32_t a_align, b_align, out_align;
  const void *a, *b;
  void *out;
} bd_cuda_sized;

// The least size of a class that is at least `size`: powers of two up to 128, then multiples of 128
// or, beyond 2048, of an eighth to a sixteenth of the size.
int64_t bd_cuda_size_class(int64_t size);

// Gives it a size, and its sharers: BD_CUDA_FAN where all of the size's class are small, or 0.
void bd_cuda_sized_set(const bd_rt *rt, bd_cuda_sized *product, int64_t size);
int64_t bd_cuda_sized_size(const bd_cuda_sized *product);

// Starts it in a stream, with the part of the library segment that has this number (0 where nobody
// shares it).
void bd_cuda_sized_start(bd_rt *rt, const bd_cuda_sized *product, cudaStream_t stream, int part);
// Whether one product stands for both, with their sizes and in what the library is told of them.
int bd_cuda_sized_alike(bd_rt *rt, const bd_cuda_sized *a, const bd_cuda_sized *b);
// While products are noted in a rehearsal: `calls` products of a step are in the class of this one.
// What is measured is this one.
void bd_cuda_sized_note(bd_rt *rt, const bd_cuda_sized *product, int64_t calls);

// Algorithms that sizes have got, the last ones.
typedef struct bd_cuda_sized_fits bd_cuda_sized_fits;
bd_cuda_sized_fits *bd_cuda_open_sized_fits(void);
void bd_cuda_close_sized_fits(bd_cuda_sized_fits *fits);
#endif
