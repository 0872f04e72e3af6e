// Starts the kernels of maxpool.cu.
#include "runtime/cuda/launch.h"

enum { PACK_BYTES = 16 };

static bd_cuda_pooling pooling_of(const bd_rt_conv *s) {
  bd_cuda_pooling p = {.last = s->channels_last != 0, .n = s->n, .c = s->c};
  for (int d = 0; d < 3; d++) {
    p.x[d] = (int32_t)s->x[d], p.y[d] = (int32_t)s->y[d], p.k[d] = (int32_t)s->k[d];
    p.stride[d] = (int32_t)s->stride[d], p.dilation[d] = (int32_t)s->dilation[d];
    p.before[d] = (int32_t)s->before[d];
  }
  return p;
}

static int packed(const void *data) {
  return (uintptr_t)data % PACK_BYTES == 0;
}

// Whether a thread takes 16 bytes of channels. Indices of a window's points lie as numbers do.
static int comes_in_packs(const bd_rt_conv *s, const void *x, const void *dy, const void *out) {
  const int64_t most = PACK_BYTES / bd_rt_element_bytes(s->dtype);
  const int64_t most_points = bd_rt_is_half(s->dtype) ? 1 << 16 : INT32_MAX;
  return s->channels_last && s->c % most == 0 && packed(x) && packed(dy) && packed(out) &&
         s->k[0] * s->k[1] * s->k[2] <= most_points;
}

// Starts the kernel for the type of the shape.
#define START(name, ...)                                                                           \
  do {                                                                                             \
    if (s->dtype == BD_RT_BF16)                                                                    \
      bd_cuda_start_##name##_bf16(__VA_ARGS__);                                                    \
    else if (s->dtype == BD_RT_F16)                                                                \
      bd_cuda_start_##name##_f16(__VA_ARGS__);                                                     \
    else                                                                                           \
      bd_cuda_start_##name##_f32(__VA_ARGS__);                                                     \
  } while (0)

static bd_cuda_grid grid_of(const bd_cuda_queue *queue, const bd_rt_conv *s, int packs,
                            const int32_t *points) {
  const int64_t lanes = packs ? PACK_BYTES / bd_rt_element_bytes(s->dtype) : 1;
  return bd_cuda_over(queue, s->n * (s->c / lanes) * bd_cuda_pool_points(points));
}

void bd_cuda_maxpool(const bd_cuda_queue *queue, const bd_rt_conv *s, const void *x, void *y) {
  if (s->n * s->c * s->y[0] * s->y[1] * s->y[2] == 0) return;
  const bd_cuda_pooling p = pooling_of(s);
  const int packs = comes_in_packs(s, x, NULL, y);
  const bd_cuda_grid grid = grid_of(queue, s, packs, p.y);
  if (packs)
    START(maxpool_packs, queue, grid, p, x, y);
  else
    START(maxpool, queue, grid, p, x, y);
}

void bd_cuda_maxpool_grad(const bd_cuda_queue *queue, const bd_rt_conv *s, const void *x,
                          const void *dy, void *dx) {
  if (s->n * s->c * s->x[0] * s->x[1] * s->x[2] == 0) return;
  const bd_cuda_pooling p = pooling_of(s);
  const int packs = comes_in_packs(s, x, dy, dx);
  int32_t blocks[3];
  bd_cuda_pool_blocks(&p, blocks);
  const bd_cuda_grid grid = grid_of(queue, s, packs, blocks);
  if (packs)
    START(maxpool_grad_packs, queue, grid, p, x, dy, dx);
  else
    START(maxpool_grad, queue, grid, p, x, dy, dx);
}
