// Numbers that lie in rows, and whether a thread can move four of them at once (packs.cuh).
#ifndef BD_RT_CUDA_PACKS_H
#define BD_RT_CUDA_PACKS_H
#include "runtime/layout.h"

enum { BD_CUDA_PACK = 4 };

// Numbers that follow one another in rows of `row`, `stride` apart, or (row 0) without rows.
// Divisions go by the inverse: what is divided is below 2^52.
typedef struct bd_cuda_rows {
  int64_t row, stride;
  double inverse;
} bd_cuda_rows;

static inline bd_cuda_rows bd_cuda_rows_of(int64_t row, int64_t stride) {
  const bd_cuda_rows rows = {row, stride, row ? 1 / (double)row : 0};
  return rows;
}

static inline int bd_cuda_rows_fit(const bd_cuda_rows *r) {
  return r->row % BD_CUDA_PACK == 0 && (!r->row || r->stride % BD_CUDA_PACK == 0);
}

// Whether packs of `size` bytes a number may begin there.
BD_RT_ANYWHERE int bd_cuda_fits(const void *at, int size) {
  return (uintptr_t)at % (uintptr_t)(BD_CUDA_PACK * size) == 0;
}
#endif
