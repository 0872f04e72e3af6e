// Between tensors and the blocks that collectives move.
#include "runtime/cuda/device.cuh"

static __device__ int64_t part_of(const bd_cuda_cut &cut, int d) {
  return (cut.extent[d] + cut.parts - 1) / cut.parts;
}

// Where element `at` of the block of `peer` is in the buffer, or -1.
static __device__ int64_t find(const bd_cuda_cut &cut, int peer, int64_t at) {
  int64_t place = 0, stride = 1;
  for (int d = 4; d >= 0; d--) {
    const bool cut_here = d == cut.own || d == cut.peers;
    const int64_t length = cut_here ? part_of(cut, d) : cut.extent[d];
    int64_t index = at % length;
    at /= length;
    if (d == cut.peers) index += peer * length;
    if (index >= cut.extent[d]) return -1;
    place += index * stride;
    stride *= d == cut.own ? length : cut.extent[d];
  }
  return at > 0 ? -1 : place;
}

template <typename element>
static __global__ void pack(bd_cuda_cut cut, int first, int peers, int64_t from, int64_t count,
                            const element *buffer, element *blocks) {
  BD_FOR_ITEMS(i, peers * count) {
    const int64_t at = find(cut, first + (int)(i / count), from + i % count);
    blocks[i] = at < 0 ? 0 : buffer[at];
  }
}

template <typename element>
static __global__ void unpack(bd_cuda_cut cut, int first, int peers, int64_t from, int64_t count,
                              const element *blocks, element *buffer) {
  BD_FOR_ITEMS(i, peers * count) {
    const int64_t at = find(cut, first + (int)(i / count), from + i % count);
    if (at >= 0) buffer[at] = blocks[i];
  }
}

static __global__ void combine_lse(int parts, int64_t count, const float *in, float *out) {
  BD_FOR_ITEMS(i, count) {
    float sum = in[i];
    for (int r = 1; r < parts; r++) {
      const float more = in[r * count + i];
      const float most = more > sum ? more : sum, least = more > sum ? sum : more;
      sum = most == -INFINITY ? most : most + log1pf(expf(least - most));
    }
    out[i] = sum;
  }
}

// A kernel for elements of `size` bytes, between `in` and `out`.
#define LAUNCH_OF_SIZE(kernel, type)                                                               \
  BD_LAUNCH(kernel<type>, grid, BD_CUDA_THREADS, queue->stream, *cut, first, peers, from, count,   \
            (const type *)in, (type *)out)
#define LAUNCH(kernel)                                                                             \
  if (size == 1)                                                                                   \
    LAUNCH_OF_SIZE(kernel, uint8_t);                                                               \
  else if (size == 2)                                                                              \
    LAUNCH_OF_SIZE(kernel, uint16_t);                                                              \
  else if (size == 4)                                                                              \
    LAUNCH_OF_SIZE(kernel, uint32_t);                                                              \
  else                                                                                             \
    LAUNCH_OF_SIZE(kernel, uint64_t)

void bd_cuda_pack(const bd_cuda_queue *queue, const bd_cuda_cut *cut, int size, int first,
                  int peers, int64_t from, int64_t count, const void *in, void *out) {
  const int grid = blocks_of(queue, peers * count);
  if (grid == 0) return;
  LAUNCH(pack);
}

void bd_cuda_unpack(const bd_cuda_queue *queue, const bd_cuda_cut *cut, int size, int first,
                    int peers, int64_t from, int64_t count, const void *in, void *out) {
  const int grid = blocks_of(queue, peers * count);
  if (grid == 0) return;
  LAUNCH(unpack);
}

void bd_cuda_combine_lse(const bd_cuda_queue *queue, int parts, int64_t count, const float *in,
                         float *out) {
  BD_LAUNCH(combine_lse, blocks_of(queue, count), BD_CUDA_THREADS, queue->stream, parts, count, in,
            out);
}
