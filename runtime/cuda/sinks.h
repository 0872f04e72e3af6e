// Rows of attention that sinks are added to.
#ifndef BD_RT_CUDA_SINKS_H
#define BD_RT_CUDA_SINKS_H
#include <stdint.h>

// `width`, of a head's row, is a multiple of eight.
typedef struct bd_cuda_sinks {
  int64_t batch, rows, heads, width;
  int64_t batch_stride, row_stride, lse_batch, lse_row; // in elements
  int64_t dtype;
} bd_cuda_sinks;
#endif
