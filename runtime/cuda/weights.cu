// Weights and gradients by their numbering in the model.
#include "runtime/cuda/device.cuh"
#include "runtime/initial.h"

template <typename cell>
BD_BODY place(const bd_rt_weight &weight, const bd_rt_local &local, int64_t first, int64_t count,
              const float *values, int dtype, cell *buffer) {
  BD_FOR_ITEMS(i, count) {
    const int64_t logical = bd_rt_stored_to_logical(&weight, first + i);
    const int64_t at = logical < 0 ? -1 : bd_rt_local_find(&local, logical);
    if (at >= 0) bd_rt_put_element(dtype, buffer, at, values[i]);
  }
}

template <typename cell>
BD_BODY pick(const bd_rt_weight &weight, const bd_rt_local &local, int64_t first, int64_t count,
             int dtype, const cell *buffer, float *values) {
  BD_FOR_ITEMS(i, count) {
    const int64_t logical = bd_rt_stored_to_logical(&weight, first + i);
    const int64_t at = logical < 0 ? -1 : bd_rt_local_find(&local, logical);
    if (at >= 0) values[i] = bd_rt_get_element(dtype, buffer, at);
  }
}

template <typename cell>
BD_BODY window(const bd_rt_local &local, int64_t first, int64_t count, cell *values, cell *buffer,
               int store) {
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
BD_BODY fill(const bd_rt_weight &weight, const bd_rt_local &local, uint64_t seed, int dtype,
             cell *buffer) {
  BD_FOR_ITEMS(i, local.elements) {
    const int64_t element = element_at(&local, i);
    bd_rt_put_element(dtype, buffer, i, element < 0 ? 0 : bd_rt_initial(&weight, seed, element));
  }
}

template <typename cell> BD_BODY clear_padding(const bd_rt_local &local, cell *buffer) {
  BD_FOR_ITEMS(i, local.elements) {
    if (element_at(&local, i) < 0) buffer[i] = 0;
  }
}

BD_ENTRY bd_k_add_halves(int dtype, uint16_t *sum, const uint16_t *more, int64_t count) {
  BD_FOR_ITEMS(i, count)
  sum[i] = bd_rt_to_half(dtype, bd_rt_from_half(dtype, sum[i]) + bd_rt_from_half(dtype, more[i]));
}

#define ENTRIES(name, cell)                                                                        \
  BD_ENTRY bd_k_place_##name(bd_rt_weight weight, bd_rt_local local, int64_t first, int64_t count, \
                             const float *values, int dtype, cell *buffer) {                       \
    place(weight, local, first, count, values, dtype, buffer);                                     \
  }                                                                                                \
  BD_ENTRY bd_k_pick_##name(bd_rt_weight weight, bd_rt_local local, int64_t first, int64_t count,  \
                            int dtype, const cell *buffer, float *values) {                        \
    pick(weight, local, first, count, dtype, buffer, values);                                      \
  }                                                                                                \
  BD_ENTRY bd_k_window_##name(bd_rt_local local, int64_t first, int64_t count, cell *values,       \
                              cell *buffer, int store) {                                           \
    window(local, first, count, values, buffer, store);                                            \
  }                                                                                                \
  BD_ENTRY bd_k_fill_##name(bd_rt_weight weight, bd_rt_local local, uint64_t seed, int dtype,      \
                            cell *buffer) {                                                        \
    fill(weight, local, seed, dtype, buffer);                                                      \
  }                                                                                                \
  BD_ENTRY bd_k_clear_padding_##name(bd_rt_local local, cell *buffer) {                            \
    clear_padding(local, buffer);                                                                  \
  }
ENTRIES(f32, float)
ENTRIES(half, uint16_t)
