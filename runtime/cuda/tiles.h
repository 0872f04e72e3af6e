// What tiles of attention's gradients take of memory.
#ifndef BD_RT_CUDA_TILES_H
#define BD_RT_CUDA_TILES_H
#include <stdint.h>

// Rows of `heads` heads of `width` numbers, a multiple of eight, which lie packed head by head in
// f32 and `row_stride` halves apart in the tensor that they belong to.
typedef struct bd_cuda_head_rows {
  int64_t heads, rows, width, row_stride;
  int dtype;
} bd_cuda_head_rows;
#endif
