// Numbers that a thread moves at once: four f32 (16 bytes) or four halves where they lie so, else
// one. Of both there is a template by `width`, 4 or 1. What is stored is not read again soon, and
// the intrinsic keeps the store in one piece.
#ifndef BD_RT_CUDA_PACKS_CUH
#define BD_RT_CUDA_PACKS_CUH
#include "runtime/cuda/device.cuh"

enum { BD_CUDA_PACK = 4 };

template <int width> struct bd_cuda_floats { float at[width]; };
// Two to a word.
template <int width> struct bd_cuda_halves {
  uint32_t word[(width + 1) / 2];
  __device__ uint16_t get(int e) const { return (uint16_t)(word[e / 2] >> e % 2 * 16); }
};

template <int width>
static inline __device__ bd_cuda_floats<width> bd_cuda_load(const float *from) {
  if constexpr (width == 1) {
    return {{*from}};
  } else {
    const float4 v = *(const float4 *)(const void *)from;
    return {{v.x, v.y, v.z, v.w}};
  }
}

template <int width>
static inline __device__ bd_cuda_halves<width> bd_cuda_load(const uint16_t *from) {
  if constexpr (width == 1) {
    return {{*from}};
  } else {
    const uint2 v = *(const uint2 *)(const void *)from;
    return {{v.x, v.y}};
  }
}

template <int width>
static inline __device__ void bd_cuda_store(float *to, const bd_cuda_floats<width> &v) {
  if constexpr (width == 1)
    *to = v.at[0];
  else
    __stcs((float4 *)(void *)to, float4{v.at[0], v.at[1], v.at[2], v.at[3]});
}

template <int width> static inline __device__ void bd_cuda_store(uint16_t *to, const uint16_t *v) {
  if constexpr (width == 1)
    *to = v[0];
  else
    __stcs((uint2 *)(void *)to, uint2{v[0] | (uint32_t)v[1] << 16, v[2] | (uint32_t)v[3] << 16});
}

// Numbers that follow one another in rows of `row`, `stride` apart, or (row 0) without rows.
// Divisions go by the inverse: what is divided is below 2^52.
typedef struct bd_cuda_rows {
  int64_t row, stride;
  double inverse;
} bd_cuda_rows;

static inline bd_cuda_rows bd_cuda_rows_of(int64_t row, int64_t stride) {
  return {row, stride, row ? 1 / (double)row : 0};
}

// The row of number `i`, where there are rows; *column is its place in that.
static inline __device__ int64_t bd_cuda_row_of(const bd_cuda_rows &r, int64_t i, int64_t *column) {
  const int64_t near = (int64_t)((double)i * r.inverse), rest = i - near * r.row;
  const int64_t by = (rest >= r.row) - (rest < 0);
  *column = rest - by * r.row;
  return near + by;
}

static inline __device__ int64_t bd_cuda_place_of(const bd_cuda_rows &r, int64_t i) {
  if (!r.row) return i;
  int64_t column;
  const int64_t row = bd_cuda_row_of(r, i, &column);
  return row * r.stride + column;
}

static inline bool bd_cuda_rows_fit(const bd_cuda_rows &r) {
  return r.row % BD_CUDA_PACK == 0 && (!r.row || r.stride % BD_CUDA_PACK == 0);
}

// Whether packs of `size` bytes a number may begin there.
static inline bool bd_cuda_fits(const void *at, int size) {
  return (uintptr_t)at % (uintptr_t)(BD_CUDA_PACK * size) == 0;
}

// How Adafactor's averages lie to a rule's elements. A vector is a row, without an average.
typedef struct bd_cuda_factoring {
  const float *row, *column;
  float *mean;
  bd_cuda_rows rows;
  int64_t first;
  int32_t last; // row
} bd_cuda_factoring;

static inline bd_cuda_factoring bd_cuda_factoring_of(const bd_rt_factors *f) {
  if (!f->column) return {NULL, f->row, f->mean, bd_cuda_rows_of(f->rows, 0), f->first, 0};
  return {f->row,   f->column,           f->mean, bd_cuda_rows_of(f->columns, 0),
          f->first, (int32_t)f->rows - 1};
}

static inline bool bd_cuda_factoring_fits(const bd_cuda_factoring &f) {
  return f.rows.row % BD_CUDA_PACK == 0 && f.first % BD_CUDA_PACK == 0 &&
         bd_cuda_fits(f.column, sizeof(float));
}

static inline __device__ float bd_cuda_inverse_mean(const bd_cuda_factoring &f) {
  const float eps = 0x1p-23f, mean = f.mean[BD_RT_MEAN_GRADIENT];
  return 1 / (mean > eps ? mean : eps);
}

// Where an element is in the matrix, less than 2^31 of whose averages lie one after another.
typedef struct bd_cuda_spot {
  int32_t row, column;
} bd_cuda_spot;

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

// Of the elements from there on the averages that updates are divided by the roots of: as
// bd_rt_factored has them, but multiplied by the mean's inverse, and that first.
template <int width>
static inline __device__ bd_cuda_floats<width>
bd_cuda_averages(const bd_cuda_factoring &f, float inverse, const bd_cuda_spot &spot) {
  const float eps = 0x1p-23f;
  bd_cuda_floats<width> out = bd_cuda_load<width>(f.column + spot.column);
  const float scale = f.row ? f.row[spot.row] * inverse : 1;
  for (int e = 0; e < width; e++)
    out.at[e] = fmaxf(scale * out.at[e], eps * eps);
  return out;
}
#endif
