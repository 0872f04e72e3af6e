// Convolution, one thread per element of the result. Sums are f32, in an order that follows from
// the shape.
#include "runtime/cuda/device.cuh"

// What operands and results hold.
struct floats {
  typedef float in, out;
};
struct halves {
  typedef uint16_t in, out;
};
struct widened {
  typedef uint16_t in;
  typedef float out;
};

static __device__ float load(int, const float *data, int64_t i) {
  return data[i];
}
static __device__ float load(int dtype, const uint16_t *data, int64_t i) {
  return bd_rt_from_half(dtype, data[i]);
}
static __device__ void store(int, float *data, int64_t i, float value) {
  data[i] = value;
}
static __device__ void store(int dtype, uint16_t *data, int64_t i, float value) {
  data[i] = bd_rt_to_half(dtype, value);
}

static __device__ int64_t points_of(const int64_t *extents) {
  return extents[0] * extents[1] * extents[2];
}

// An element of blocks (images, filters) of so many channels and points: which it is, and where it
// lies.
struct element {
  int64_t block, channel, point;
};
struct blocks {
  int64_t channels, points;
  int last; // channels are

  __device__ element at(int64_t i) const {
    const int64_t block = i / (channels * points), rest = i % (channels * points);
    if (last) return {block, rest % channels, rest / channels};
    return {block, rest / points, rest % points};
  }
  __device__ int64_t offset(int64_t block, int64_t channel, int64_t point) const {
    return last ? (block * points + point) * channels + channel
                : (block * channels + channel) * points + point;
  }
};

static __device__ blocks images_of(const bd_rt_conv &s, int64_t channels, const int64_t *extents) {
  return {channels, points_of(extents), s.channels_last != 0};
}

static __device__ blocks filters_of(const bd_rt_conv &s, int64_t channels) {
  return {channels, points_of(s.k), 0};
}

// Coordinates of point `at` of three extents.
static __device__ void spread(const int64_t *extents, int64_t at, int64_t *out) {
  out[2] = at % extents[2];
  out[1] = at / extents[2] % extents[1];
  out[0] = at / extents[2] / extents[1];
}

// Which place along dimension d is point k of the window of point y; below 0: outside.
static __device__ int64_t place_along(const bd_rt_conv &s, int d, int64_t y, int64_t k) {
  const int64_t i = y * s.stride[d] + k * s.dilation[d] - s.before[d];
  return i < s.x[d] ? i : -1;
}

// Which point of the result along dimension d has place x as point k of its window; -1: none.
static __device__ int64_t window_along(const bd_rt_conv &s, int d, int64_t x, int64_t k) {
  const int64_t start = x + s.before[d] - k * s.dilation[d];
  const int64_t window = start < 0 ? 0 : start / s.stride[d];
  return start == window * s.stride[d] && window < s.y[d] ? window : -1;
}

// Which point of the image is point k of the window of point y; -1: outside.
static __device__ int64_t place_of(const bd_rt_conv &s, const int64_t *y, int64_t k) {
  int64_t at[3], place = 0;
  spread(s.k, k, at);
  for (int d = 0; d < 3; d++) {
    const int64_t i = place_along(s, d, y[d], at[d]);
    if (i < 0) return -1;
    place = place * s.x[d] + i;
  }
  return place;
}

// Which point of the result has this point x of the image as point k of its window; -1: none.
static __device__ int64_t window_of(const bd_rt_conv &s, const int64_t *x, int64_t k) {
  int64_t at[3], window = 0;
  spread(s.k, k, at);
  for (int d = 0; d < 3; d++) {
    const int64_t i = window_along(s, d, x[d], at[d]);
    if (i < 0) return -1;
    window = window * s.y[d] + i;
  }
  return window;
}

template <typename types>
BD_BODY conv(const bd_rt_conv &s, const typename types::in *x, const typename types::in *w,
             typename types::out *y) {
  const int64_t channels = s.c / s.groups, outputs = s.o / s.groups;
  const blocks xs = images_of(s, s.c, s.x), ks = filters_of(s, channels),
               ys = images_of(s, s.o, s.y);
  BD_FOR_ITEMS(i, s.n * s.o * ys.points) {
    const element to = ys.at(i);
    const int64_t first = to.channel / outputs * channels;
    int64_t at[3];
    float sum = 0;
    spread(s.y, to.point, at);
    for (int64_t k = 0; k < ks.points; k++) {
      const int64_t place = place_of(s, at, k);
      for (int64_t c = 0; place >= 0 && c < channels; c++)
        sum += load(s.dtype, x, xs.offset(to.block, first + c, place)) *
               load(s.dtype, w, ks.offset(to.channel, c, k));
    }
    store(s.out_dtype, y, i, sum);
  }
}

template <typename types>
BD_BODY conv_dx(const bd_rt_conv &s, const typename types::in *dy, const typename types::in *w,
                typename types::out *dx) {
  const int64_t channels = s.c / s.groups, outputs = s.o / s.groups;
  const blocks xs = images_of(s, s.c, s.x), ks = filters_of(s, channels),
               ys = images_of(s, s.o, s.y);
  BD_FOR_ITEMS(i, s.n * s.c * xs.points) {
    const element to = xs.at(i);
    const int64_t first = to.channel / channels * outputs;
    int64_t at[3];
    float sum = 0;
    spread(s.x, to.point, at);
    for (int64_t k = 0; k < ks.points; k++) {
      const int64_t window = window_of(s, at, k);
      for (int64_t o = first; window >= 0 && o < first + outputs; o++)
        sum += load(s.dtype, dy, ys.offset(to.block, o, window)) *
               load(s.dtype, w, ks.offset(o, to.channel % channels, k));
    }
    store(s.out_dtype, dx, i, sum);
  }
}

template <typename types>
BD_BODY conv_dw(const bd_rt_conv &s, const typename types::in *x, const typename types::in *dy,
                int accumulate, typename types::out *dw) {
  const int64_t channels = s.c / s.groups, outputs = s.o / s.groups;
  const blocks xs = images_of(s, s.c, s.x), ks = filters_of(s, channels),
               ys = images_of(s, s.o, s.y);
  BD_FOR_ITEMS(i, s.o * channels * ks.points) {
    const element to = ks.at(i);
    const int64_t from = to.block / outputs * channels + to.channel;
    float sum = accumulate ? load(s.out_dtype, dw, i) : 0;
    for (int64_t image = 0; image < s.n; image++)
      for (int64_t j = 0; j < ys.points; j++) {
        int64_t at[3];
        spread(s.y, j, at);
        const int64_t place = place_of(s, at, to.point);
        if (place >= 0)
          sum += load(s.dtype, x, xs.offset(image, from, place)) *
                 load(s.dtype, dy, ys.offset(image, to.block, j));
      }
    store(s.out_dtype, dw, i, sum);
  }
}

template <typename types>
BD_BODY place_filters(const bd_rt_conv &s, int dtype, const typename types::in *filters,
                      int accumulate, typename types::out *dw) {
  const int64_t channels = s.c / s.groups;
  const blocks ks = filters_of(s, channels), last = {channels, ks.points, 1};
  BD_FOR_ITEMS(i, s.o * channels * ks.points) {
    const element to = ks.at(i);
    const float value = load(dtype, filters, last.offset(to.block, to.channel, to.point));
    store(s.out_dtype, dw, i, accumulate ? load(s.out_dtype, dw, i) + value : value);
  }
}

#define ENTRIES(types, in, out)                                                                    \
  BD_ENTRY bd_k_conv_##types(bd_rt_conv s, const in *x, const in *w, out *y) {                     \
    conv<types>(s, x, w, y);                                                                       \
  }                                                                                                \
  BD_ENTRY bd_k_conv_dx_##types(bd_rt_conv s, const in *dy, const in *w, out *dx) {                \
    conv_dx<types>(s, dy, w, dx);                                                                  \
  }                                                                                                \
  BD_ENTRY bd_k_conv_dw_##types(bd_rt_conv s, const in *x, const in *dy, int accumulate,           \
                                out *dw) {                                                         \
    conv_dw<types>(s, x, dy, accumulate, dw);                                                      \
  }                                                                                                \
  BD_ENTRY bd_k_place_filters_##types(bd_rt_conv s, int dtype, const in *filters, int accumulate,  \
                                      out *dw) {                                                   \
    place_filters<types>(s, dtype, filters, accumulate, dw);                                       \
  }
ENTRIES(floats, float, float)
ENTRIES(halves, uint16_t, uint16_t)
ENTRIES(widened, uint16_t, float)
