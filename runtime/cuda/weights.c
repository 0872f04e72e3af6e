// Starts the kernels of weights.cu.
#include "runtime/cuda/launch.h"

// The kernel of elements of `size` bytes: f32, or halves.
#define OF_SIZE(name, size, items, ...)                                                            \
  do {                                                                                             \
    if ((size) == sizeof(float))                                                                   \
      bd_cuda_start_##name##_f32(queue, bd_cuda_over(queue, items), __VA_ARGS__);                  \
    else                                                                                           \
      bd_cuda_start_##name##_half(queue, bd_cuda_over(queue, items), __VA_ARGS__);                 \
  } while (0)

void bd_cuda_place(const bd_cuda_queue *queue, const bd_rt_weight *weight, const bd_rt_local *local,
                   int64_t first, int64_t count, const float *values, int dtype, void *buffer) {
  OF_SIZE(place, bd_rt_element_bytes(dtype), count, *weight, *local, first, count, values, dtype,
          buffer);
}

void bd_cuda_pick(const bd_cuda_queue *queue, const bd_rt_weight *weight, const bd_rt_local *local,
                  int64_t first, int64_t count, int dtype, const void *buffer, float *values) {
  OF_SIZE(pick, bd_rt_element_bytes(dtype), count, *weight, *local, first, count, dtype, buffer,
          values);
}

void bd_cuda_window(const bd_cuda_queue *queue, const bd_rt_local *local, int64_t first,
                    int64_t count, int size, void *values, void *buffer, int store) {
  OF_SIZE(window, size, count, *local, first, count, values, buffer, store);
}

void bd_cuda_clear_padding(const bd_cuda_queue *queue, const bd_rt_local *local, int size,
                           void *buffer) {
  if (local->elements > 0) OF_SIZE(clear_padding, size, local->elements, *local, buffer);
}

void bd_cuda_fill(const bd_cuda_queue *queue, const bd_rt_weight *weight, const bd_rt_local *local,
                  uint64_t seed, int dtype, void *buffer) {
  if (local->elements > 0)
    OF_SIZE(fill, bd_rt_element_bytes(dtype), local->elements, *weight, *local, seed, dtype,
            buffer);
}

void bd_cuda_add_halves(const bd_cuda_queue *queue, int dtype, uint16_t *sum, const uint16_t *more,
                        int64_t count) {
  if (count > 0)
    bd_cuda_start_add_halves(queue, bd_cuda_over(queue, count), dtype, sum, more, count);
}
