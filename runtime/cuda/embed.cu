// The gradient of an embedding: every row of the table adds up its tokens in their order.
#include "runtime/cuda/device.cuh"

enum { SORT_THREADS = 64, AHEAD = 8 };

// order: the tokens by their ids, those of one id in ascending order. alike[p]: how many tokens
// have the id of the one at place p, if that is their first and its row is here; else 0.
static __global__ void sort_tokens(const int32_t *ids, int64_t count, int64_t row_start,
                                   int64_t rows, int32_t *order, int32_t *alike) {
  BD_FOR_ITEMS(t, count) {
    const int32_t id = ids[t];
    int32_t less = 0, before = 0, after = 0;
    for (int64_t other = 0; other < t; other++) {
      less += ids[other] < id;
      before += ids[other] == id;
    }
    for (int64_t other = t; other < count; other++) {
      less += ids[other] < id;
      after += ids[other] == id;
    }
    const int here = id >= row_start && id < row_start + rows;
    order[less + before] = (int32_t)t;
    alike[less + before] = here && before == 0 ? after : 0;
  }
}

static __device__ float value_of(int, float number) {
  return number;
}
static __device__ float value_of(int dtype, uint16_t half) {
  return bd_rt_from_half(dtype, half);
}

// A thread that adds up a row's column reads ahead, since loads do not wait for each other.
template <typename element>
static __global__ void add_tokens(int dtype, const int32_t *ids, const element *dout, int64_t count,
                                  int64_t c, int64_t row_start, const int32_t *order,
                                  const int32_t *alike, float *dtable) {
  BD_FOR_ITEMS(i, count * c) {
    const int64_t place = i / c, column = i % c;
    const int32_t tokens = alike[place];
    if (tokens == 0) continue;
    const int32_t *const token = order + place;
    float *const out = dtable + (ids[token[0]] - row_start) * c + column;
    element next[AHEAD];
    float sum = *out;
    int32_t done = 0;
    for (; done + AHEAD <= tokens; done += AHEAD) {
      for (int k = 0; k < AHEAD; k++)
        next[k] = dout[token[done + k] * c + column];
      for (int k = 0; k < AHEAD; k++)
        sum += value_of(dtype, next[k]);
    }
    for (; done < tokens; done++)
      sum += value_of(dtype, dout[token[done] * c + column]);
    *out = sum;
  }
}

void bd_cuda_embed_dw(const bd_cuda_queue *queue, int dtype, const int32_t *ids, const void *dout,
                      int64_t count, int64_t c, int64_t row_start, int64_t rows, float *dtable,
                      int32_t *places) {
  int32_t *const order = places, *const alike = places + count;
  const int grid = blocks_of(queue, count * c);
  if (grid == 0) return;
  BD_LAUNCH(sort_tokens, (int)((count + SORT_THREADS - 1) / SORT_THREADS), SORT_THREADS,
            queue->stream, ids, count, row_start, rows, order, alike);
  if (bd_rt_is_half(dtype))
    BD_LAUNCH(add_tokens<uint16_t>, grid, BD_CUDA_THREADS, queue->stream, dtype, ids,
              (const uint16_t *)dout, count, c, row_start, (const int32_t *)order,
              (const int32_t *)alike, dtable);
  else
    BD_LAUNCH(add_tokens<float>, grid, BD_CUDA_THREADS, queue->stream, dtype, ids,
              (const float *)dout, count, c, row_start, (const int32_t *)order,
              (const int32_t *)alike, dtable);
}
