// Weights and gradients by their numbering in the model.
#include "runtime/cuda/device.cuh"
#include "runtime/initial.h"

template <typename cell>
static __global__ void place(bd_rt_weight weight, bd_rt_local local, int64_t first, int64_t count,
                             const float *values, int dtype, cell *buffer) {
  BD_FOR_ITEMS(i, count) {
    const int64_t logical = bd_rt_stored_to_logical(&weight, first + i);
    const int64_t at = logical < 0 ? -1 : bd_rt_local_find(&local, logical);
    if (at >= 0) bd_rt_put_element(dtype, buffer, at, values[i]);
  }
}

template <typename cell>
static __global__ void pick(bd_rt_weight weight, bd_rt_local local, int64_t first, int64_t count,
                            int dtype, const cell *buffer, float *values) {
  BD_FOR_ITEMS(i, count) {
    const int64_t logical = bd_rt_stored_to_logical(&weight, first + i);
    const int64_t at = logical < 0 ? -1 : bd_rt_local_find(&local, logical);
    if (at >= 0) values[i] = bd_rt_get_element(dtype, buffer, at);
  }
}

template <typename cell>
static __global__ void window(bd_rt_local local, int64_t first, int64_t count, cell *values,
                              cell *buffer, int store) {
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

template <typename cell>
static __global__ void fill(bd_rt_weight weight, bd_rt_local local, uint64_t seed, int dtype,
                            cell *buffer) {
  BD_FOR_ITEMS(i, local.elements) {
    const int64_t element = element_at(&local, i);
    bd_rt_put_element(dtype, buffer, i, element < 0 ? 0 : bd_rt_initial(&weight, seed, element));
  }
}

template <typename cell> static __global__ void clear_padding(bd_rt_local local, cell *buffer) {
  BD_FOR_ITEMS(i, local.elements) {
    if (element_at(&local, i) < 0) buffer[i] = 0;
  }
}

static __global__ void add_halves(int dtype, uint16_t *sum, const uint16_t *more, int64_t count) {
  BD_FOR_ITEMS(i, count)
  sum[i] = bd_rt_to_half(dtype, bd_rt_from_half(dtype, sum[i]) + bd_rt_from_half(dtype, more[i]));
}

template <typename pointer> struct pointed;
template <typename cell> struct pointed<cell *> { using type = cell; };
template <typename pointer> using cell_of = typename pointed<pointer>::type;

// Elements of `size` bytes: f32, or halves.
template <typename body> static void by_size(int size, void *buffer, const body &start) {
  if (size == sizeof(float))
    start((float *)buffer);
  else
    start((uint16_t *)buffer);
}

void bd_cuda_place(const bd_cuda_queue *queue, const bd_rt_weight *weight, const bd_rt_local *local,
                   int64_t first, int64_t count, const float *values, int dtype, void *buffer) {
  by_size(bd_rt_element_bytes(dtype), buffer, [&](auto *to) {
    BD_LAUNCH(place<cell_of<decltype(to)>>, blocks_of(queue, count), BD_CUDA_THREADS, queue->stream,
              *weight, *local, first, count, values, dtype, to);
  });
}

void bd_cuda_pick(const bd_cuda_queue *queue, const bd_rt_weight *weight, const bd_rt_local *local,
                  int64_t first, int64_t count, int dtype, const void *buffer, float *values) {
  by_size(bd_rt_element_bytes(dtype), (void *)buffer, [&](auto *from) {
    BD_LAUNCH(pick<cell_of<decltype(from)>>, blocks_of(queue, count), BD_CUDA_THREADS,
              queue->stream, *weight, *local, first, count, dtype, from, values);
  });
}

void bd_cuda_window(const bd_cuda_queue *queue, const bd_rt_local *local, int64_t first,
                    int64_t count, int size, void *values, void *buffer, int store) {
  by_size(size, buffer, [&](auto *own) {
    BD_LAUNCH(window<cell_of<decltype(own)>>, blocks_of(queue, count), BD_CUDA_THREADS,
              queue->stream, *local, first, count, (decltype(own))values, own, store);
  });
}

void bd_cuda_clear_padding(const bd_cuda_queue *queue, const bd_rt_local *local, int size,
                           void *buffer) {
  if (local->elements <= 0) return;
  by_size(size, buffer, [&](auto *own) {
    BD_LAUNCH(clear_padding<cell_of<decltype(own)>>, blocks_of(queue, local->elements),
              BD_CUDA_THREADS, queue->stream, *local, own);
  });
}

void bd_cuda_fill(const bd_cuda_queue *queue, const bd_rt_weight *weight, const bd_rt_local *local,
                  uint64_t seed, int dtype, void *buffer) {
  if (local->elements <= 0) return;
  by_size(bd_rt_element_bytes(dtype), buffer, [&](auto *to) {
    BD_LAUNCH(fill<cell_of<decltype(to)>>, blocks_of(queue, local->elements), BD_CUDA_THREADS,
              queue->stream, *weight, *local, seed, dtype, to);
  });
}

void bd_cuda_add_halves(const bd_cuda_queue *queue, int dtype, uint16_t *sum, const uint16_t *more,
                        int64_t count) {
  if (count > 0)
    BD_LAUNCH(add_halves, blocks_of(queue, count), BD_CUDA_THREADS, queue->stream, dtype, sum, more,
              count);
}
