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

// `count` matrices of bf16, `between` apart; strides in elements.
typedef struct bd_rt_factor {
  const void *data;
  int64_t count, between, rows, columns, row_stride, column_stride;
} bd_rt_factor;
// The scale of the largest number in all of them (bd_rt_f8_scale).
float bd_rt_factor_scale(int format, const bd_rt_factor *factor);
// A tile of `count` floats as 8 bits hold it under a scale.
void bd_rt_round_tile(int format, float scale, float *tile, int64_t count);
#endif
