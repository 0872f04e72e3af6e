// Starts the kernels of sinks.cu.
#include "runtime/cuda/launch.h"

void bd_cuda_add_sinks(const bd_cuda_queue *queue, const bd_cuda_sinks *s, const uint16_t *sinks,
                       uint16_t *out, float *lse) {
  const int64_t rows = s->batch * s->rows * s->heads;
  const bd_cuda_grid packs = bd_cuda_over(queue, rows * s->width / BD_CUDA_PACK);
  bd_cuda_start_leave_to_sinks(queue, packs, *s, sinks, lse, out);
  bd_cuda_start_join_sinks(queue, bd_cuda_over(queue, rows), *s, sinks, lse);
}
