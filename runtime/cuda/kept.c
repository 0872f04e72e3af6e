// Starts the kernel of kept.cu.
#include "runtime/cuda/launch.h"

void bd_cuda_put(const bd_cuda_queue *queue, const bd_cuda_kept *from, int count,
                 bd_cuda_kept *to) {
  for (int done = 0; done < count; done += BD_CUDA_KEPT_AT_ONCE) {
    bd_cuda_kept_list next = {0};
    const int part = count - done < BD_CUDA_KEPT_AT_ONCE ? count - done : BD_CUDA_KEPT_AT_ONCE;
    for (int i = 0; i < part; i++)
      next.of[i] = from[done + i];
    bd_cuda_start_put(queue, (bd_cuda_grid){1, BD_CUDA_KEPT_AT_ONCE}, next, part, to + done);
  }
}
