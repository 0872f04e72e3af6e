// Tiles of products of matrices, in a thread's scratch: of halves as floats, or of floats without
// gaps.
#ifndef BD_RT_CPU_TILE_H
#define BD_RT_CPU_TILE_H
#include "runtime/cpu/rt.h"

enum { BD_RT_TILE_ROWS = 256, BD_RT_TILE_COLUMNS = 512, BD_RT_TILE_DEPTH = 512 };
_Static_assert(BD_RT_TILE_ROWS *BD_RT_TILE_DEPTH + BD_RT_TILE_DEPTH * BD_RT_TILE_COLUMNS +
                       BD_RT_TILE_ROWS * BD_RT_TILE_COLUMNS <=
                   BD_RT_THREAD_SCRATCH_FLOATS,
               "a thread's scratch holds a tile of each matrix");

typedef struct bd_rt_matrix {
  const float *data;
  int64_t row, column; // strides
} bd_rt_matrix;

// A matrix of `dtype` one of whose strides is 1, as floats: where it is, or, of halves and with
// `copy`, in `tile` without gaps.
bd_rt_matrix bd_rt_load_tile(int dtype, int copy, const void *from, int64_t rows, int64_t columns,
                             int64_t row_stride, int64_t column_stride, float *tile);
#endif
