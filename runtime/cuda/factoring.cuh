// Adafactor's averages of rows and columns, for threads that walk a weight's elements.
#ifndef BD_RT_CUDA_FACTORING_CUH
#define BD_RT_CUDA_FACTORING_CUH
#include "runtime/cuda/packs.cuh"

static inline __device__ float bd_cuda_inverse_mean(const bd_cuda_factoring &f) {
  const float eps = 0x1p-23f, mean = f.mean[BD_RT_MEAN_GRADIENT];
  return 1 / (mean > eps ? mean : eps);
}

static inline __device__ bd_cuda_spot bd_cuda_spot_of(const bd_cuda_factoring &f, int64_t i) {
  int64_t column;
  const int64_t row = bd_cuda_row_of(f.rows, f.first + i, &column);
  return {(int32_t)row, (int32_t)column};
}

// Of what is outside of the matrix somewhere inside.
static inline __device__ bd_cuda_spot bd_cuda_clamp(const bd_cuda_factoring &f, bd_cuda_spot spot) {
  const int32_t row = spot.row > 0 ? spot.row : 0;
  return {row < f.last ? row : f.last, spot.column};
}

// By rows, and by no more columns than a row has.
static inline __device__ void bd_cuda_go_on(const bd_cuda_factoring &f, bd_cuda_spot by,
                                            bd_cuda_spot *spot) {
  const int32_t columns = (int32_t)f.rows.row, column = spot->column + by.column;
  const bool over = column >= columns;
  spot->column = over ? column - columns : column;
  spot->row += by.row + over;
}

// Of a number from 2^-46 on, which takes one instruction.
static inline __device__ float bd_cuda_inverse_root(float x) {
#ifdef __CUDA_ARCH__
  float root;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(x));
  return root;
#else
  return 1 / sqrtf(x);
#endif
}

// What the averages of a row's columns are multiplied by: 1 of a vector.
static inline __device__ float bd_cuda_row_scale(const bd_cuda_factoring &f, float inverse,
                                                 int32_t row) {
  return f.row ? f.row[row] * inverse : 1;
}

// The averages that updates are divided by the roots of, of a row's elements in the columns whose
// averages are given: as bd_rt_factored has them, but multiplied by the mean's inverse, and that
// first.
template <int width>
static inline __device__ bd_cuda_floats<width>
bd_cuda_averages(float scale, const bd_cuda_floats<width> &columns) {
  const float eps = 0x1p-23f;
  bd_cuda_floats<width> out;
  for (int e = 0; e < width; e++)
    out.at[e] = fmaxf(scale * columns.at[e], eps * eps);
  return out;
}
#endif
