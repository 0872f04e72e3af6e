// Starts the kernels of adafactor_means.cu.
#include "runtime/cuda/adafactor_host.h"

void bd_cuda_mix_means(const bd_cuda_queue *queue, bd_cuda_mean_list *list, const char *room) {
  if (list->means > 0)
    bd_cuda_start_mix_means(queue, (bd_cuda_grid){(int)list->means, 1}, *list,
                            (const bd_cuda_groups *)(const void *)room);
  list->means = 0;
}

void bd_cuda_leave_mean(const bd_cuda_queue *queue, bd_cuda_mean mean, int64_t count) {
  if (mean.at) bd_cuda_start_mix_nothing(queue, bd_cuda_over(queue, count), mean, count);
}
