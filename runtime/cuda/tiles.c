// Starts the kernels of tiles.cu.
#include "runtime/cuda/launch.h"

void bd_cuda_add_tile(const bd_cuda_queue *queue, int dtype, int first, const uint16_t *tile,
                      float *sum, int64_t count) {
  const int64_t packs = count / BD_CUDA_PACK;
  bd_cuda_start_add_tile(queue, bd_cuda_over(queue, packs), dtype, first, tile, sum, packs);
}

void bd_cuda_round_head_rows(const bd_cuda_queue *queue, const bd_cuda_head_rows *rows,
                             const float *sum, uint16_t *out) {
  const int64_t packs = rows->heads * rows->rows * rows->width / BD_CUDA_PACK;
  bd_cuda_start_round_head_rows(queue, bd_cuda_over(queue, packs), *rows, sum, out);
}
