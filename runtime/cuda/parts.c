// Starts the kernels of parts.cu.
#include "runtime/cuda/launch.h"

// Moves elements of `size` bytes between `in` and `out`.
#define MOVE_OF(move, bytes)                                                                       \
  bd_cuda_start_##move##_##bytes(queue, bd_cuda_over(queue, peers *count), *cut, first, peers,     \
                                 from, count, in, out)
#define MOVE(move)                                                                                 \
  if (size == 1)                                                                                   \
    MOVE_OF(move, 1);                                                                              \
  else if (size == 2)                                                                              \
    MOVE_OF(move, 2);                                                                              \
  else if (size == 4)                                                                              \
    MOVE_OF(move, 4);                                                                              \
  else                                                                                             \
    MOVE_OF(move, 8)

void bd_cuda_pack(const bd_cuda_queue *queue, const bd_cuda_cut *cut, int size, int first,
                  int peers, int64_t from, int64_t count, const void *in, void *out) {
  if (peers * count == 0) return;
  MOVE(pack);
}

void bd_cuda_unpack(const bd_cuda_queue *queue, const bd_cuda_cut *cut, int size, int first,
                    int peers, int64_t from, int64_t count, const void *in, void *out) {
  if (peers * count == 0) return;
  MOVE(unpack);
}

void bd_cuda_combine_lse(const bd_cuda_queue *queue, int parts, int64_t count, const float *in,
                         float *out) {
  bd_cuda_start_combine_lse(queue, bd_cuda_over(queue, count), parts, count, in, out);
}
