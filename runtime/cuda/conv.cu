// Convolution and pooling, one thread per element of the result.
#include "runtime/cuda/device.cuh"

static __host__ __device__ int64_t points_of(const int64_t *extents) {
  return extents[0] * extents[1] * extents[2];
}

// Coordinates of point `at` of three extents.
static __device__ void spread(const int64_t *extents, int64_t at, int64_t *out) {
  out[2] = at % extents[2];
  out[1] = at / extents[2] % extents[1];
  out[0] = at / extents[2] / extents[1];
}

// Which point of the image is point k of the window of point y; -1: outside.
static __device__ int64_t place_of(const bd_rt_conv &s, const int64_t *y, int64_t k) {
  int64_t at[3], place = 0;
  spread(s.k, k, at);
  for (int d = 0; d < 3; d++) {
    const int64_t i = y[d] * s.stride[d] + at[d] * s.dilation[d] - s.before[d];
    if (i < 0 || i >= s.x[d]) return -1;
    place = place * s.x[d] + i;
  }
  return place;
}

// Which point of the result has this point x of the image as point k of its window; -1: none.
static __device__ int64_t window_of(const bd_rt_conv &s, const int64_t *x, int64_t k) {
  int64_t at[3], window = 0;
  spread(s.k, k, at);
  for (int d = 0; d < 3; d++) {
    const int64_t start = x[d] + s.before[d] - at[d] * s.dilation[d];
    if (start < 0 || start % s.stride[d] || start / s.stride[d] >= s.y[d]) return -1;
    window = window * s.y[d] + start / s.stride[d];
  }
  return window;
}

static __global__ void conv(bd_rt_conv s, const float *x, const float *w, float *y) {
  const int64_t channels = s.c / s.groups, outputs = s.o / s.groups;
  const int64_t xs = points_of(s.x), ks = points_of(s.k), ys = points_of(s.y);
  BD_FOR_ITEMS(i, s.n * s.o * ys) {
    const int64_t o = i / ys % s.o, image = i / ys / s.o, first = o / outputs * channels;
    int64_t at[3];
    float sum = 0;
    spread(s.y, i % ys, at);
    for (int64_t k = 0; k < ks; k++) {
      const int64_t place = place_of(s, at, k);
      for (int64_t c = 0; place >= 0 && c < channels; c++)
        sum += x[(image * s.c + first + c) * xs + place] * w[(o * channels + c) * ks + k];
    }
    y[i] = sum;
  }
}

static __global__ void conv_dx(bd_rt_conv s, const float *dy, const float *w, float *dx) {
  const int64_t channels = s.c / s.groups, outputs = s.o / s.groups;
  const int64_t xs = points_of(s.x), ks = points_of(s.k), ys = points_of(s.y);
  BD_FOR_ITEMS(i, s.n * s.c * xs) {
    const int64_t c = i / xs % s.c, image = i / xs / s.c, first = c / channels * outputs;
    int64_t at[3];
    float sum = 0;
    spread(s.x, i % xs, at);
    for (int64_t k = 0; k < ks; k++) {
      const int64_t window = window_of(s, at, k);
      for (int64_t o = first; window >= 0 && o < first + outputs; o++)
        sum += dy[(image * s.o + o) * ys + window] * w[(o * channels + c % channels) * ks + k];
    }
    dx[i] = sum;
  }
}

static __global__ void conv_dw(bd_rt_conv s, const float *x, const float *dy, int accumulate,
                               float *dw) {
  const int64_t channels = s.c / s.groups, outputs = s.o / s.groups;
  const int64_t xs = points_of(s.x), ks = points_of(s.k), ys = points_of(s.y);
  BD_FOR_ITEMS(i, s.o * channels * ks) {
    const int64_t k = i % ks, o = i / ks / channels;
    const int64_t from = o / outputs * channels + i / ks % channels;
    float sum = accumulate ? dw[i] : 0;
    for (int64_t image = 0; image < s.n; image++)
      for (int64_t j = 0; j < ys; j++) {
        int64_t at[3];
        spread(s.y, j, at);
        const int64_t place = place_of(s, at, k);
        if (place >= 0)
          sum += x[(image * s.c + from) * xs + place] * dy[(image * s.o + o) * ys + j];
      }
    dw[i] = sum;
  }
}

// Index within the plane of the first greatest value of the window of point y; -1: all is outside.
static __device__ int64_t find_most(const bd_rt_conv &s, const float *x, const int64_t *y) {
  int64_t best = -1;
  for (int64_t k = 0; k < points_of(s.k); k++) {
    const int64_t place = place_of(s, y, k);
    if (place >= 0 && (best < 0 || x[place] > x[best])) best = place;
  }
  return best;
}

static __global__ void maxpool(bd_rt_conv s, const float *x, float *y) {
  const int64_t xs = points_of(s.x), ys = points_of(s.y);
  BD_FOR_ITEMS(i, s.n * s.c * ys) {
    const float *const from = x + i / ys * xs;
    int64_t at[3];
    spread(s.y, i % ys, at);
    const int64_t best = find_most(s, from, at);
    y[i] = best < 0 ? -INFINITY : from[best];
  }
}

// Every input looks at the windows that hold it, in ascending order.
static __global__ void maxpool_grad(bd_rt_conv s, const float *x, const float *dy, float *dx) {
  const int64_t xs = points_of(s.x), ys = points_of(s.y);
  BD_FOR_ITEMS(i, s.n * s.c * xs) {
    const int64_t plane = i / xs;
    const float *const from = x + plane * xs;
    int64_t at[3], corner[3];
    float sum = 0;
    spread(s.x, i % xs, at);
    for (int64_t k = points_of(s.k) - 1; k >= 0; k--) {
      const int64_t window = window_of(s, at, k);
      if (window < 0) continue;
      spread(s.y, window, corner);
      if (find_most(s, from, corner) == i % xs) sum += dy[plane * ys + window];
    }
    dx[i] = sum;
  }
}

void bd_cuda_conv(const bd_cuda_queue *queue, const bd_rt_conv *s, const float *x, const float *w,
                  float *y) {
  const int grid = blocks_of(queue, s->n * s->o * points_of(s->y));
  if (grid > 0) BD_LAUNCH(conv, grid, BD_CUDA_THREADS, queue->stream, *s, x, w, y);
}

void bd_cuda_conv_dx(const bd_cuda_queue *queue, const bd_rt_conv *s, const float *dy,
                     const float *w, float *dx) {
  const int grid = blocks_of(queue, s->n * s->c * points_of(s->x));
  if (grid > 0) BD_LAUNCH(conv_dx, grid, BD_CUDA_THREADS, queue->stream, *s, dy, w, dx);
}

void bd_cuda_conv_dw(const bd_cuda_queue *queue, const bd_rt_conv *s, const float *x,
                     const float *dy, int accumulate, float *dw) {
  const int grid = blocks_of(queue, s->o * (s->c / s->groups) * points_of(s->k));
  if (grid > 0)
    BD_LAUNCH(conv_dw, grid, BD_CUDA_THREADS, queue->stream, *s, x, dy, accumulate, dw);
}

void bd_cuda_maxpool(const bd_cuda_queue *queue, const bd_rt_conv *s, const float *x, float *y) {
  const int grid = blocks_of(queue, s->n * s->c * points_of(s->y));
  if (grid > 0) BD_LAUNCH(maxpool, grid, BD_CUDA_THREADS, queue->stream, *s, x, y);
}

void bd_cuda_maxpool_grad(const bd_cuda_queue *queue, const bd_rt_conv *s, const float *x,
                          const float *dy, float *dx) {
  const int grid = blocks_of(queue, s->n * s->c * points_of(s->x));
  if (grid > 0) BD_LAUNCH(maxpool_grad, grid, BD_CUDA_THREADS, queue->stream, *s, x, dy, dx);
}
