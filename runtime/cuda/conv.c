// Starts the kernels of conv.cu.
#include "runtime/cuda/launch.h"

static int64_t points_of(const int64_t *extents) {
  return extents[0] * extents[1] * extents[2];
}

// Starts the kernel for types `in` and `out`, with so many items.
#define START(name, in, out, items, ...)                                                           \
  do {                                                                                             \
    const bd_cuda_grid grid = bd_cuda_over(queue, items);                                          \
    if (!bd_rt_is_half(in))                                                                        \
      bd_cuda_start_##name##_floats(queue, grid, *s, __VA_ARGS__);                                 \
    else if (bd_rt_is_half(out))                                                                   \
      bd_cuda_start_##name##_halves(queue, grid, *s, __VA_ARGS__);                                 \
    else                                                                                           \
      bd_cuda_start_##name##_widened(queue, grid, *s, __VA_ARGS__);                                \
  } while (0)

void bd_cuda_conv(const bd_cuda_queue *queue, const bd_rt_conv *s, const void *x, const void *w,
                  void *y) {
  const int64_t items = s->n * s->o * points_of(s->y);
  if (items > 0) START(conv, s->dtype, s->out_dtype, items, x, w, y);
}

void bd_cuda_conv_dx(const bd_cuda_queue *queue, const bd_rt_conv *s, const void *dy, const void *w,
                     void *dx) {
  const int64_t items = s->n * s->c * points_of(s->x);
  if (items > 0) START(conv_dx, s->dtype, s->out_dtype, items, dy, w, dx);
}

void bd_cuda_conv_dw(const bd_cuda_queue *queue, const bd_rt_conv *s, const void *x, const void *dy,
                     int accumulate, void *dw) {
  const int64_t items = s->o * (s->c / s->groups) * points_of(s->k);
  if (items > 0) START(conv_dw, s->dtype, s->out_dtype, items, x, dy, accumulate, dw);
}

void bd_cuda_place_filters(const bd_cuda_queue *queue, const bd_rt_conv *s, int dtype,
                           const void *filters, int accumulate, void *dw) {
  const int64_t items = s->o * (s->c / s->groups) * points_of(s->k);
  if (items > 0) START(place_filters, dtype, s->out_dtype, items, dtype, filters, accumulate, dw);
}
