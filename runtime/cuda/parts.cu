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
BD_BODY pack(const bd_cuda_cut &cut, int first, int peers, int64_t from, int64_t count,
             const element *buffer, element *blocks) {
  BD_FOR_ITEMS(i, peers * count) {
    const int64_t at = find(cut, first + (int)(i / count), from + i % count);
    blocks[i] = at < 0 ? 0 : buffer[at];
  }
}

template <typename element>
BD_BODY unpack(const bd_cuda_cut &cut, int first, int peers, int64_t from, int64_t count,
               const element *blocks, element *buffer) {
  BD_FOR_ITEMS(i, peers * count) {
    const int64_t at = find(cut, first + (int)(i / count), from + i % count);
    if (at >= 0) buffer[at] = blocks[i];
  }
}

BD_ENTRY bd_k_combine_lse(int parts, int64_t count, const float *in, float *out) {
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

#define MOVE(move, bits, size)                                                                     \
  BD_ENTRY bd_k_##move##_##size(bd_cuda_cut cut, int first, int peers, int64_t from,               \
                                int64_t count, const uint##bits##_t *in, uint##bits##_t *out) {    \
    move(cut, first, peers, from, count, in, out);                                                 \
  }
#define MOVE_BOTH(bits, size) MOVE(pack, bits, size) MOVE(unpack, bits, size)
MOVE_BOTH(8, 1)
MOVE_BOTH(16, 2)
MOVE_BOTH(32, 4)
MOVE_BOTH(64, 8)
