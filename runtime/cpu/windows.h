// Points of images and of the windows that lie over them.
#ifndef BD_RT_CPU_WINDOWS_H
#define BD_RT_CPU_WINDOWS_H
#include "runtime/braid_rt.h"

static inline int64_t bd_rt_points(const int64_t extents[3]) {
  return extents[0] * extents[1] * extents[2];
}

// Which point of the image is point `k` of the window of point `y`; -1: outside.
static inline int64_t bd_rt_window_place(const bd_rt_conv *s, int64_t y, int64_t k) {
  int64_t place = 0, stride = 1;
  for (int d = 2; d >= 0; d--) {
    const int64_t i = y % s->y[d] * s->stride[d] + k % s->k[d] * s->dilation[d] - s->before[d];
    if (i < 0 || i >= s->x[d]) return -1;
    place += i * stride;
    stride *= s->x[d];
    y /= s->y[d];
    k /= s->k[d];
  }
  return place;
}
#endif
