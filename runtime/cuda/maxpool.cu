// Pooling by the greatest. Neighbouring threads take neighbouring channels where these lie last, a
// pack of 16 bytes each if it can; else neighbouring points.
#include "runtime/cuda/device.cuh"

enum {
  ROW = 3, // points of a window's row that a thread reads before it compares them
  SIDE = BD_CUDA_POOL_SIDE,
};

// Numbers as bits. `above` are those words, of two halves each, all of whose bits are set where a >
// b.
struct floats {
  typedef uint32_t number;
  enum : uint32_t { LEAST = 0xFF800000 };
  static __device__ float widen(uint32_t bits) { return bd_rt_of_bits(bits); }
  static __device__ uint32_t narrow(float value) { return bd_rt_bits_of(value); }
};
struct bfloats {
  typedef uint16_t number;
  enum : uint32_t { LEAST = 0xFF80 };
  static __device__ float widen(uint32_t half) { return bd_rt_from_bf16((uint16_t)half); }
  static __device__ uint16_t narrow(float value) {
#ifdef __CUDA_ARCH__
    uint16_t half; // the same bits of a number
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(half) : "f"(value));
    return half;
#else
    return bd_rt_to_bf16(value);
#endif
  }
  static __device__ uint32_t above(uint32_t a, uint32_t b) {
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 900
    uint32_t mask;
    asm("set.gt.u32.bf16x2 %0, %1, %2;" : "=r"(mask) : "r"(a), "r"(b));
    return mask;
#else
    return (widen(a) > widen(b) ? 0xFFFF : 0) | (widen(a >> 16) > widen(b >> 16) ? 0xFFFF0000 : 0);
#endif
  }
};
struct halves {
  typedef uint16_t number;
  enum : uint32_t { LEAST = 0xFC00 };
#ifdef __CUDA_ARCH__
  static __device__ float widen(uint32_t half) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"((uint16_t)half));
    return value;
  }
  static __device__ uint16_t narrow(float value) {
    uint16_t half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
    return half;
  }
  static __device__ uint32_t above(uint32_t a, uint32_t b) {
    uint32_t mask;
    asm("set.gt.u32.f16x2 %0, %1, %2;" : "=r"(mask) : "r"(a), "r"(b));
    return mask;
  }
#else
  static float widen(uint32_t half) {
    return bd_rt_from_f16((uint16_t)half);
  }
  static uint16_t narrow(float value) {
    return bd_rt_to_f16(value);
  }
  static uint32_t above(uint32_t a, uint32_t b) {
    return (widen(a) > widen(b) ? 0xFFFF : 0) | (widen(a >> 16) > widen(b >> 16) ? 0xFFFF0000 : 0);
  }
#endif
};

// What so many numbers are moved as.
template <typename number, int count> struct unit_of { typedef uint32_t unit; };
template <typename number> struct unit_of<number, 1> { typedef number unit; };

// One number, or words of all that are moved at once.
template <typename type, int count> struct several : type {
  enum {
    lanes = count,
    in_word = count == 1 ? 1 : (int)(sizeof(uint32_t) / sizeof(typename type::number)),
    words = lanes / in_word,
  };
  typedef typename unit_of<typename type::number, count>::unit unit;
  struct alignas(words * sizeof(unit)) taken {
    unit word[words];
  };

  static __device__ uint32_t in_all(uint32_t bits) { return in_word == 2 ? bits * 0x10001 : bits; }
  template <typename word> static __device__ uint32_t lane(const word *words, int l) {
    return in_word == 2 ? words[l / 2] >> l % 2 * 16 & 0xFFFF : words[l];
  }
  static __device__ uint32_t above(uint32_t a, uint32_t b) {
    if constexpr (in_word == 2)
      return type::above(a, b);
    else
      return type::widen(a) > type::widen(b) ? UINT32_MAX : 0;
  }
};

// Between points.
static __device__ int64_t step_of(const bd_cuda_pooling &s) {
  return s.last ? s.c : 1;
}

static __device__ int64_t place_of(const int32_t *extents, const int32_t *at) {
  return ((int64_t)at[0] * extents[1] + at[1]) * extents[2] + at[2];
}

// Of a >= 0; most divisors are 1.
static __device__ int32_t divide(int32_t a, int32_t b) {
  return b == 1 ? a : (int32_t)((uint32_t)a / (uint32_t)b);
}

// The least q >= 0 with q * b >= a.
static __device__ int32_t divide_up(int32_t a, int32_t b) {
  return a <= 0 ? 0 : divide(a + b - 1, b);
}

static __device__ int32_t least(int32_t a, int32_t b) {
  return a < b ? a : b;
}

// The last index of `*number`, of which the others are left.
static __device__ int64_t cut(int64_t *number, int64_t extent) {
  const int64_t whole = *number;
  if (extent == 1) return 0;
  *number = whole / extent;
  return whole - *number * extent;
}

// What a thread is to do: a point of so many, or block of points, in these channels of an image.
struct spot {
  int64_t image, channel;
  int32_t point[3];

  __device__ spot(const bd_cuda_pooling &s, int lanes, const int32_t *points, int64_t item) {
    if (s.last) channel = cut(&item, s.c / lanes) * lanes;
    for (int d = 2; d >= 0; d--)
      point[d] = (int32_t)cut(&item, points[d]);
    if (!s.last) channel = cut(&item, s.c);
    image = item;
  }
  // Where the channels' first point lies among images of `points` points.
  __device__ int64_t plane(const bd_cuda_pooling &s, int64_t points) const {
    return s.last ? image * points * s.c + channel : (image * s.c + channel) * points;
  }
};

static __device__ uint32_t merge(uint32_t mask, uint32_t a, uint32_t b) {
  return (a & mask) | (b & ~mask);
}

// The first greatest values of a window, and which of its points has each; of a window that lies
// outside nothing is found.
template <typename types> struct greatest {
  uint32_t value[types::words], index[types::words];
  bool found;

  // `x` is the plane.
  __device__ greatest(const bd_cuda_pooling &s, const typename types::number *x, const int32_t *y) {
    int32_t first[3], count[3], at[3];
    for (int d = 0; d < 3; d++) {
      const int32_t start = y[d] * s.stride[d] - s.before[d];
      first[d] = divide_up(-start, s.dilation[d]);
      count[d] = least(s.k[d], divide_up(s.x[d] - start, s.dilation[d])) - first[d];
      at[d] = start + first[d] * s.dilation[d];
    }
    found = count[0] > 0 && count[1] > 0 && count[2] > 0;
    if (!found) return;
    const int64_t down = (int64_t)s.dilation[1] * s.x[2] * step_of(s);
    int32_t row = (first[0] * s.k[1] + first[1]) * s.k[2] + first[2];
    begin_with(x + place_of(s.x, at) * step_of(s), row);
    for (int32_t i = 0; i < count[0]; i++, at[0] += s.dilation[0], row += s.k[1] * s.k[2]) {
      const typename types::number *from = x + place_of(s.x, at) * step_of(s);
      for (int32_t j = 0; j < count[1]; j++, from += down)
        see_row(s, from, row + j * s.k[2], count[2]);
    }
  }

  __device__ void begin_with(const typename types::number *x, int32_t point) {
    const typename types::taken v = *(const typename types::taken *)x;
    for (int w = 0; w < types::words; w++)
      value[w] = v.word[w], index[w] = types::in_all((uint32_t)point);
  }

  __device__ void see(const typename types::taken &v, uint32_t point) {
    for (int w = 0; w < types::words; w++) {
      const uint32_t mask = types::above(v.word[w], value[w]);
      value[w] = merge(mask, v.word[w], value[w]);
      index[w] = merge(mask, point, index[w]);
    }
  }

  __device__ void see_row(const bd_cuda_pooling &s, const typename types::number *x, int32_t point,
                          int32_t count) {
    for (; count > 0; count -= ROW, point += ROW) {
      typename types::taken row[ROW];
      for (int k = 0; k < ROW; k++, x += s.dilation[2] * step_of(s))
        if (k < count) row[k] = *(const typename types::taken *)x;
      for (int k = 0; k < ROW; k++)
        if (k < count) see(row[k], types::in_all((uint32_t)(point + k)));
    }
  }
};

template <typename types>
BD_BODY maxpool(const bd_cuda_pooling &s, const typename types::number *x,
                typename types::number *y) {
  BD_FOR_ITEMS(i, s.n * (s.c / types::lanes) * bd_cuda_pool_points(s.y)) {
    const spot to(s, types::lanes, s.y, i);
    const greatest<types> most(s, x + to.plane(s, bd_cuda_pool_points(s.x)), to.point);
    typename types::taken out;
    for (int w = 0; w < types::words; w++)
      out.word[w] =
          (typename types::unit)(most.found ? most.value[w] : types::in_all(types::LEAST));
    *(decltype(out) *)(y + to.plane(s, bd_cuda_pool_points(s.y)) +
                       place_of(s.y, to.point) * step_of(s)) = out;
  }
}

// The gradients of one block of points, from the windows that hold any of its points.
template <typename types> struct gradients {
  float sum[SIDE * SIDE][types::lanes];
  int32_t first[3], from[3], to[3]; // its first point; the windows, along each dimension

  __device__ gradients(const bd_cuda_pooling &s, const int32_t *block) {
    for (int d = 0; d < 3; d++) {
      const int side = d == 0 ? 1 : SIDE;
      first[d] = block[d] * side;
      from[d] = divide_up(first[d] + s.before[d] - (s.k[d] - 1) * s.dilation[d], s.stride[d]);
      to[d] = least(s.y[d], divide(first[d] + side - 1 + s.before[d], s.stride[d]) + 1);
    }
    for (int p = 0; p < SIDE * SIDE; p++)
      for (int l = 0; l < types::lanes; l++)
        sum[p][l] = 0;
  }
  // Which of window y's indices along dimension d is the block's number i; -1: none.
  __device__ int32_t along(const bd_cuda_pooling &s, int d, const int32_t *y, int i) const {
    const int32_t at = first[d] + i - (y[d] * s.stride[d] - s.before[d]);
    const int32_t k = at < 0 ? -1 : divide(at, s.dilation[d]);
    return k < s.k[d] && k * s.dilation[d] == at ? k : -1;
  }
  __device__ void add(const bd_cuda_pooling &s, const int32_t *y, const greatest<types> &most,
                      const typename types::taken &dy) {
    const int32_t i = along(s, 0, y, 0);
    int32_t j[SIDE], k[SIDE];
    for (int p = 0; p < SIDE; p++)
      j[p] = along(s, 1, y, p), k[p] = along(s, 2, y, p);
    for (int p = 0; p < SIDE * SIDE; p++)
      if (i >= 0 && j[p / SIDE] >= 0 && k[p % SIDE] >= 0)
        add_to(sum[p], most, dy, (uint32_t)((i * s.k[1] + j[p / SIDE]) * s.k[2] + k[p % SIDE]));
  }
  static __device__ void add_to(float *sum, const greatest<types> &most,
                                const typename types::taken &dy, uint32_t index) {
    for (int l = 0; l < types::lanes; l++)
      if (types::lane(most.index, l) == index) sum[l] += types::widen(types::lane(dy.word, l));
  }
  __device__ typename types::taken rounded(int p) const {
    typename types::taken out = {};
    for (int l = 0; l < types::lanes; l++)
      out.word[l / types::in_word] |= (uint32_t)types::narrow(sum[p][l]) << l % types::in_word * 16;
    return out;
  }
};

// Windows in ascending order.
template <typename types>
BD_BODY maxpool_grad(bd_cuda_pooling s, const typename types::number *x,
                     const typename types::number *dy, typename types::number *dx) {
  typedef typename types::taken taken;
  int32_t parts[3];
  bd_cuda_pool_blocks(&s, parts);
  BD_FOR_ITEMS(i, s.n * (s.c / types::lanes) * bd_cuda_pool_points(parts)) {
    const spot to(s, types::lanes, parts, i);
    const int64_t plane = to.plane(s, bd_cuda_pool_points(s.x)),
                  windows = to.plane(s, bd_cuda_pool_points(s.y));
    gradients<types> g(s, to.point);
    int32_t y[3];
    for (y[0] = g.from[0]; y[0] < g.to[0]; y[0]++)
      for (y[1] = g.from[1]; y[1] < g.to[1]; y[1]++)
        for (y[2] = g.from[2]; y[2] < g.to[2]; y[2]++) {
          const taken given = *(const taken *)(dy + windows + place_of(s.y, y) * step_of(s));
          const greatest<types> most(s, x + plane, y);
          if (most.found) g.add(s, y, most, given);
        }
    for (int p = 0; p < SIDE * SIDE; p++) {
      const int32_t at[3] = {g.first[0], g.first[1] + p / SIDE, g.first[2] + p % SIDE};
      if (at[1] < s.x[1] && at[2] < s.x[2])
        *(taken *)(dx + plane + place_of(s.x, at) * step_of(s)) = g.rounded(p);
    }
  }
}

#define ENTRIES(name, number, type, count)                                                         \
  BD_ENTRY BD_ROOM(4) bd_k_maxpool_##name(bd_cuda_pooling s, const number *x, number *y) {         \
    maxpool<several<type, count>>(s, x, y);                                                        \
  }                                                                                                \
  BD_ENTRY BD_ROOM(2)                                                                              \
      bd_k_maxpool_grad_##name(bd_cuda_pooling s, const number *x, const number *dy, number *dx) { \
    maxpool_grad<several<type, count>>(s, x, dy, dx);                                              \
  }
ENTRIES(packs_f32, uint32_t, floats, 4)
ENTRIES(packs_bf16, uint16_t, bfloats, 8)
ENTRIES(packs_f16, uint16_t, halves, 8)
ENTRIES(f32, uint32_t, floats, 1)
ENTRIES(bf16, uint16_t, bfloats, 1)
ENTRIES(f16, uint16_t, halves, 1)
