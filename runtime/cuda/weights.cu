// Weights and gradients by their numbering in the model.
#include "runtime/cuda/device.cuh"
#include "runtime/initial.h"

static __global__ void place(bd_rt_weight weight, bd_rt_local local, int64_t first, int64_t count,
                             const float *values, float *buffer) {
  BD_FOR_ITEMS(i, count) {
    const int64_t logical = bd_rt_stored_to_logical(&weight, first + i);
    const int64_t at = logical < 0 ? -1 : bd_rt_local_find(&local, logical);
    if (at >= 0) buffer[at] = values[i];
  }
}

static __global__ void pick(bd_rt_weight weight, bd_rt_local local, int64_t first, int64_t count,
                            const float *buffer, float *values) {
  BD_FOR_ITEMS(i, count) {
    const int64_t logical = bd_rt_stored_to_logical(&weight, first + i);
    const int64_t at = logical < 0 ? -1 : bd_rt_local_find(&local, logical);
    if (at >= 0) values[i] = buffer[at];
  }
}

static __global__ void window(bd_rt_local local, int64_t first, int64_t count, float *values,
                              float *buffer, int store) {
  BD_FOR_ITEMS(i, count) {
    const int64_t at = bd_rt_local_find(&local, first + i);
    if (at < 0) continue;
    if (store)
      buffer[at] = values[i];
    else
      values[i] = buffer[at];
  }
}

// The logical element at position `at` of a rank's buffer, or -1 where it is padding.
static __device__ int64_t element_at(const bd_rt_local *local, int64_t at) {
  int64_t flat = 0, stride = 1;
  for (int d = local->rank - 1; d >= 0; d--) {
    const int64_t index = at % local->extent[d];
    if (index >= local->count[d]) return -1;
    flat += (local->start[d] + index) * stride;
    at /= local->extent[d];
    stride *= local->dims[d];
  }
  return flat;
}

static __global__ void fill(bd_rt_weight weight, bd_rt_local local, uint64_t seed, float *buffer) {
  BD_FOR_ITEMS(i, local.elements) {
    const int64_t element = element_at(&local, i);
    buffer[i] = element < 0 ? 0 : bd_rt_initial(&weight, seed, element);
  }
}

static __global__ void clear_padding(bd_rt_local local, float *buffer) {
  BD_FOR_ITEMS(i, local.elements) {
    if (element_at(&local, i) < 0) buffer[i] = 0;
  }
}

void bd_cuda_place(const bd_cuda_queue *queue, const bd_rt_weight *weight, const bd_rt_local *local,
                   int64_t first, int64_t count, const float *values, float *buffer) {
  BD_LAUNCH(place, blocks_of(queue, count), BD_CUDA_THREADS, queue->stream, *weight, *local, first,
            count, values, buffer);
}

void bd_cuda_pick(const bd_cuda_queue *queue, const bd_rt_weight *weight, const bd_rt_local *local,
                  int64_t first, int64_t count, const float *buffer, float *values) {
  BD_LAUNCH(pick, blocks_of(queue, count), BD_CUDA_THREADS, queue->stream, *weight, *local, first,
            count, buffer, values);
}

void bd_cuda_window(const bd_cuda_queue *queue, const bd_rt_local *local, int64_t first,
                    int64_t count, float *values, float *buffer, int store) {
  BD_LAUNCH(window, blocks_of(queue, count), BD_CUDA_THREADS, queue->stream, *local, first, count,
            values, buffer, store);
}

void bd_cuda_clear_padding(const bd_cuda_queue *queue, const bd_rt_local *local, float *buffer) {
  if (local->elements > 0)
    BD_LAUNCH(clear_padding, blocks_of(queue, local->elements), BD_CUDA_THREADS, queue->stream,
              *local, buffer);
}

void bd_cuda_fill(const bd_cuda_queue *queue, const bd_rt_weight *weight, const bd_rt_local *local,
                  uint64_t seed, float *buffer) {
  if (local->elements > 0)
    BD_LAUNCH(fill, blocks_of(queue, local->elements), BD_CUDA_THREADS, queue->stream, *weight,
              *local, seed, buffer);
}
