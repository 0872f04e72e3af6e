// Means of squares, mixed into Adafactor's averages.
#include "runtime/cuda/adafactor.cuh"

static __device__ bd_rt_mixing mixing_of(const bd_cuda_mean &m) {
  return m.mixing ? *m.mixing : m.fixed;
}

static __global__ void BD_ROOM(1) mix_means(bd_cuda_mean_list list, const bd_cuda_groups *sums) {
  BD_FOR_ITEMS(i, list.means) {
    const bd_cuda_mean m = list.of[i];
    *m.at = bd_cuda_mixed(*m.at, mixing_of(m), bd_cuda_sum<64>(sums->of[i], BD_CUDA_GROUPS, 1));
  }
}

static __global__ void mix_nothing(bd_cuda_mean m, int64_t count) {
  const bd_rt_mixing mixing = mixing_of(m);
  BD_FOR_ITEMS(i, count) m.at[i] = bd_cuda_mixed(m.at[i], mixing, 0);
}

void bd_cuda_mix_means(const bd_cuda_queue *queue, bd_cuda_mean_list *list, const char *room) {
  if (list->means > 0)
    BD_LAUNCH(mix_means, (int)list->means, 1, queue->stream, *list,
              (const bd_cuda_groups *)(const void *)room);
  list->means = 0;
}

void bd_cuda_leave_mean(const bd_cuda_queue *queue, const bd_cuda_mean &mean, int64_t count) {
  if (mean.at)
    BD_LAUNCH(mix_nothing, blocks_of(queue, count), BD_CUDA_THREADS, queue->stream, mean, count);
}
