// Numbers that a thread moves at once: four f32 (16 bytes) or four halves where they lie so, else
// one. Of both there is a template by `width`, 4 or 1. What is stored is not read again soon, and
// the intrinsic keeps the store in one piece.
#ifndef BD_RT_CUDA_PACKS_CUH
#define BD_RT_CUDA_PACKS_CUH
#include "runtime/cuda/device.cuh"

template <int width> struct bd_cuda_floats { float at[width]; };
// Two to a word.
template <int width> struct bd_cuda_halves {
  uint32_t word[(width + 1) / 2];
  __device__ uint16_t get(int e) const { return (uint16_t)(word[e / 2] >> e % 2 * 16); }
  // In the place of what is 0: a half, or the upper one of `bits`.
  __device__ void put(int e, uint16_t half) { word[e / 2] |= (uint32_t)half << e % 2 * 16; }
  __device__ void put_upper(int e, uint32_t bits) {
    word[e / 2] |= e % 2 ? bits & 0xFFFF0000 : bits >> 16;
  }
};

// `once`: what is not read again soon, and leaves the first cache to the rest.
template <bool once, typename value>
static inline __device__ value bd_cuda_read(const value *from) {
  return once ? __ldcs(from) : *from;
}

template <int width, bool once = false>
static inline __device__ bd_cuda_floats<width> bd_cuda_load(const float *from) {
  if constexpr (width == 1) {
    return {{bd_cuda_read<once>(from)}};
  } else {
    const float4 v = bd_cuda_read<once>((const float4 *)(const void *)from);
    return {{v.x, v.y, v.z, v.w}};
  }
}

template <int width, bool once = false>
static inline __device__ bd_cuda_halves<width> bd_cuda_load(const uint16_t *from) {
  if constexpr (width == 1) {
    return {{bd_cuda_read<once>(from)}};
  } else {
    const uint2 v = bd_cuda_read<once>((const uint2 *)(const void *)from);
    return {{v.x, v.y}};
  }
}

// As numbers: what halves hold is bf16.
template <int width>
static inline __device__ bd_cuda_floats<width>
bd_cuda_floats_of(const bd_cuda_floats<width> &loaded) {
  return loaded;
}

template <int width>
static inline __device__ bd_cuda_floats<width>
bd_cuda_floats_of(const bd_cuda_halves<width> &loaded) {
  bd_cuda_floats<width> out;
  for (int e = 0; e < width; e++)
    out.at[e] = bd_rt_from_bf16(loaded.get(e));
  return out;
}

template <int width, typename number>
static inline __device__ bd_cuda_floats<width> bd_cuda_load_floats(const number *from) {
  return bd_cuda_floats_of(bd_cuda_load<width>(from));
}

template <int width>
static inline __device__ void bd_cuda_store(float *to, const bd_cuda_floats<width> &v) {
  if constexpr (width == 1)
    *to = v.at[0];
  else
    __stcs((float4 *)(void *)to, float4{v.at[0], v.at[1], v.at[2], v.at[3]});
}

template <int width>
static inline __device__ void bd_cuda_store(uint16_t *to, const bd_cuda_halves<width> &v) {
  if constexpr (width == 1)
    *to = v.get(0);
  else
    __stcs((uint2 *)(void *)to, uint2{v.word[0], v.word[1]});
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
#endif
