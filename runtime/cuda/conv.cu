// Convolution and pooling, one thread per element of the result.
#include "runtime/cuda/device.cuh"

static __global__ void conv2d(bd_rt_conv s, const float *x, const float *w, float *y) {
  const int64_t channels = s.c / s.groups, outputs = s.o / s.groups;
  BD_FOR_ITEMS(i, s.n * s.o * s.oh * s.ow) {
    const int64_t ow = i % s.ow, oh = i / s.ow % s.oh, o = i / s.ow / s.oh % s.o;
    const int64_t image = i / s.ow / s.oh / s.o, first = o / outputs * channels;
    float sum = 0;
    for (int64_t c = 0; c < channels; c++)
      for (int64_t kh = 0; kh < s.kh; kh++)
        for (int64_t kw = 0; kw < s.kw; kw++) {
          const int64_t h = oh * s.stride_h - s.pad_h + kh, v = ow * s.stride_w - s.pad_w + kw;
          if (h < 0 || h >= s.h || v < 0 || v >= s.w) continue;
          sum += x[((image * s.c + first + c) * s.h + h) * s.w + v] *
                 w[((o * channels + c) * s.kh + kh) * s.kw + kw];
        }
    y[i] = sum;
  }
}

// The output position whose window has this input at offset `k`, or -1.
static __device__ int64_t window_of(int64_t at, int64_t k, int64_t pad, int64_t stride,
                                    int64_t outputs) {
  const int64_t start = at + pad - k;
  return start < 0 || start % stride || start / stride >= outputs ? -1 : start / stride;
}

static __global__ void conv2d_dx(bd_rt_conv s, const float *dy, const float *w, float *dx) {
  const int64_t channels = s.c / s.groups, outputs = s.o / s.groups;
  BD_FOR_ITEMS(i, s.n * s.c * s.h * s.w) {
    const int64_t v = i % s.w, h = i / s.w % s.h, c = i / s.w / s.h % s.c;
    const int64_t image = i / s.w / s.h / s.c, first = c / channels * outputs;
    float sum = 0;
    for (int64_t o = first; o < first + outputs; o++)
      for (int64_t kh = 0; kh < s.kh; kh++)
        for (int64_t kw = 0; kw < s.kw; kw++) {
          const int64_t oh = window_of(h, kh, s.pad_h, s.stride_h, s.oh);
          const int64_t ow = window_of(v, kw, s.pad_w, s.stride_w, s.ow);
          if (oh < 0 || ow < 0) continue;
          sum += dy[((image * s.o + o) * s.oh + oh) * s.ow + ow] *
                 w[((o * channels + c % channels) * s.kh + kh) * s.kw + kw];
        }
    dx[i] = sum;
  }
}

static __global__ void conv2d_dw(bd_rt_conv s, const float *x, const float *dy, int accumulate,
                                 float *dw) {
  const int64_t channels = s.c / s.groups, outputs = s.o / s.groups;
  BD_FOR_ITEMS(i, s.o * channels * s.kh * s.kw) {
    const int64_t kw = i % s.kw, kh = i / s.kw % s.kh, c = i / s.kw / s.kh % channels;
    const int64_t o = i / s.kw / s.kh / channels, from = o / outputs * channels + c;
    float sum = accumulate ? dw[i] : 0;
    for (int64_t image = 0; image < s.n; image++)
      for (int64_t oh = 0; oh < s.oh; oh++)
        for (int64_t ow = 0; ow < s.ow; ow++) {
          const int64_t h = oh * s.stride_h - s.pad_h + kh, v = ow * s.stride_w - s.pad_w + kw;
          if (h < 0 || h >= s.h || v < 0 || v >= s.w) continue;
          sum += x[((image * s.c + from) * s.h + h) * s.w + v] *
                 dy[((image * s.o + o) * s.oh + oh) * s.ow + ow];
        }
    dw[i] = sum;
  }
}

// Index within the plane of the first greatest value of a window.
static __device__ int64_t find_most(const bd_rt_conv &s, const float *x, int64_t oh, int64_t ow) {
  int64_t best = -1;
  for (int64_t kh = 0; kh < s.kh; kh++)
    for (int64_t kw = 0; kw < s.kw; kw++) {
      const int64_t h = oh * s.stride_h - s.pad_h + kh, v = ow * s.stride_w - s.pad_w + kw;
      if (h < 0 || h >= s.h || v < 0 || v >= s.w) continue;
      if (best < 0 || x[h * s.w + v] > x[best]) best = h * s.w + v;
    }
  return best;
}

static __global__ void maxpool2d(bd_rt_conv s, const float *x, float *y) {
  BD_FOR_ITEMS(i, s.n * s.c * s.oh * s.ow) {
    const int64_t ow = i % s.ow, oh = i / s.ow % s.oh, plane = i / s.ow / s.oh;
    const float *const from = x + plane * s.h * s.w;
    const int64_t best = find_most(s, from, oh, ow);
    y[i] = best < 0 ? -INFINITY : from[best];
  }
}

// Every input looks at the windows that hold it, in ascending order.
static __global__ void maxpool2d_grad(bd_rt_conv s, const float *x, const float *dy, float *dx) {
  BD_FOR_ITEMS(i, s.n * s.c * s.h * s.w) {
    const int64_t v = i % s.w, h = i / s.w % s.h, plane = i / s.w / s.h;
    const float *const from = x + plane * s.h * s.w;
    float sum = 0;
    for (int64_t kh = s.kh - 1; kh >= 0; kh--)
      for (int64_t kw = s.kw - 1; kw >= 0; kw--) {
        const int64_t oh = window_of(h, kh, s.pad_h, s.stride_h, s.oh);
        const int64_t ow = window_of(v, kw, s.pad_w, s.stride_w, s.ow);
        if (oh < 0 || ow < 0 || find_most(s, from, oh, ow) != h * s.w + v) continue;
        sum += dy[(plane * s.oh + oh) * s.ow + ow];
      }
    dx[i] = sum;
  }
}

void bd_cuda_conv2d(const bd_cuda_queue *queue, const bd_rt_conv *s, const float *x, const float *w,
                    float *y) {
  const int grid = blocks_of(queue, s->n * s->o * s->oh * s->ow);
  if (grid > 0) BD_LAUNCH(conv2d, grid, BD_CUDA_THREADS, queue->stream, *s, x, w, y);
}

void bd_cuda_conv2d_dx(const bd_cuda_queue *queue, const bd_rt_conv *s, const float *dy,
                       const float *w, float *dx) {
  const int grid = blocks_of(queue, s->n * s->c * s->h * s->w);
  if (grid > 0) BD_LAUNCH(conv2d_dx, grid, BD_CUDA_THREADS, queue->stream, *s, dy, w, dx);
}

void bd_cuda_conv2d_dw(const bd_cuda_queue *queue, const bd_rt_conv *s, const float *x,
                       const float *dy, int accumulate, float *dw) {
  const int grid = blocks_of(queue, s->o * (s->c / s->groups) * s->kh * s->kw);
  if (grid > 0)
    BD_LAUNCH(conv2d_dw, grid, BD_CUDA_THREADS, queue->stream, *s, x, dy, accumulate, dw);
}

void bd_cuda_maxpool2d(const bd_cuda_queue *queue, const bd_rt_conv *s, const float *x, float *y) {
  const int grid = blocks_of(queue, s->n * s->c * s->oh * s->ow);
  if (grid > 0) BD_LAUNCH(maxpool2d, grid, BD_CUDA_THREADS, queue->stream, *s, x, y);
}

void bd_cuda_maxpool2d_grad(const bd_cuda_queue *queue, const bd_rt_conv *s, const float *x,
                            const float *dy, float *dx) {
  const int grid = blocks_of(queue, s->n * s->c * s->h * s->w);
  if (grid > 0) BD_LAUNCH(maxpool2d_grad, grid, BD_CUDA_THREADS, queue->stream, *s, x, dy, dx);
}
