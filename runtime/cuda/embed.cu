// The gradient of an embedding: every row of the table adds up its tokens in their order.
#include "runtime/cuda/device.cuh"

// next[t]: the next token with the same id, or -1; first[t]: whether none came before it.
static __global__ void link_tokens(const int32_t *ids, int64_t count, int64_t row_start,
                                   int64_t rows, int32_t *next, int32_t *first) {
  BD_FOR_ITEMS(t, count) {
    const int32_t id = ids[t];
    first[t] = id >= row_start && id < row_start + rows;
    next[t] = -1;
    if (!first[t]) continue;
    for (int64_t before = t - 1; before >= 0 && first[t]; before--)
      if (ids[before] == id) first[t] = 0;
    for (int64_t after = t + 1; after < count && next[t] < 0; after++)
      if (ids[after] == id) next[t] = (int32_t)after;
  }
}

static __device__ float value_of(int, const float *data, int64_t i) {
  return data[i];
}
static __device__ float value_of(int dtype, const uint16_t *data, int64_t i) {
  return bd_rt_from_half(dtype, data[i]);
}

template <typename element>
static __global__ void add_tokens(int dtype, const int32_t *ids, const element *dout, int64_t count,
                                  int64_t c, int64_t row_start, const int32_t *next,
                                  const int32_t *first, float *dtable) {
  BD_FOR_ITEMS(i, count * c) {
    const int64_t token = i / c, column = i % c;
    if (!first[token]) continue;
    float *const out = dtable + (ids[token] - row_start) * c + column;
    float sum = *out;
    for (int64_t t = token; t >= 0; t = next[t])
      sum += value_of(dtype, dout, t * c + column);
    *out = sum;
  }
}

void bd_cuda_embed_dw(const bd_cuda_queue *queue, int dtype, const int32_t *ids, const void *dout,
                      int64_t count, int64_t c, int64_t row_start, int64_t rows, float *dtable,
                      int32_t *links) {
  int32_t *const next = links, *const first = links + count;
  const int grid = blocks_of(queue, count * c);
  if (grid == 0) return;
  BD_LAUNCH(link_tokens, blocks_of(queue, count), BD_CUDA_THREADS, queue->stream, ids, count,
            row_start, rows, next, first);
  if (bd_rt_is_half(dtype))
    BD_LAUNCH(add_tokens<uint16_t>, grid, BD_CUDA_THREADS, queue->stream, dtype, ids,
              (const uint16_t *)dout, count, c, row_start, (const int32_t *)next,
              (const int32_t *)first, dtable);
  else
    BD_LAUNCH(add_tokens<float>, grid, BD_CUDA_THREADS, queue->stream, dtype, ids,
              (const float *)dout, count, c, row_start, (const int32_t *)next,
              (const int32_t *)first, dtable);
}
