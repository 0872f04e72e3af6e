// How Adafactor's averages of rows and columns lie to a weight's elements.
#ifndef BD_RT_CUDA_FACTORING_H
#define BD_RT_CUDA_FACTORING_H
#include "runtime/cuda/packs.h"
#include "runtime/factors.h"

// A vector is a row, without an average.
typedef struct bd_cuda_factoring {
  const float *row, *column;
  float *mean;
  bd_cuda_rows rows;
  int64_t first;
  int32_t last; // row
} bd_cuda_factoring;

static inline bd_cuda_factoring bd_cuda_factoring_of(const bd_rt_factors *f) {
  const bd_cuda_factoring vector = {NULL,     f->row, f->mean, bd_cuda_rows_of(f->rows, 0),
                                    f->first, 0};
  const bd_cuda_factoring matrix = {
      f->row, f->column, f->mean, bd_cuda_rows_of(f->columns, 0), f->first, (int32_t)f->rows - 1};
  return f->column ? matrix : vector;
}

static inline int bd_cuda_factoring_fits(const bd_cuda_factoring *f) {
  return f->rows.row % BD_CUDA_PACK == 0 && f->first % BD_CUDA_PACK == 0 &&
         bd_cuda_fits(f->column, sizeof(float));
}

// Where an element is in the matrix, less than 2^31 of whose averages lie one after another.
typedef struct bd_cuda_spot {
  int32_t row, column;
} bd_cuda_spot;
#endif
