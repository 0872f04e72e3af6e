// Means of squares, mixed into Adafactor's averages.
#include "runtime/cuda/adafactor.cuh"

static __device__ bd_rt_mixing mixing_of(const bd_cuda_mean &m) {
  return m.mixing ? *m.mixing : m.fixed;
}

BD_ENTRY BD_ROOM(1) bd_k_mix_means(bd_cuda_mean_list list, const bd_cuda_groups *sums) {
  BD_FOR_ITEMS(i, list.means) {
    const bd_cuda_mean m = list.of[i];
    *m.at = bd_cuda_mixed(*m.at, mixing_of(m), bd_cuda_sum<64>(sums->of[i], BD_CUDA_GROUPS, 1));
  }
}

BD_ENTRY bd_k_mix_nothing(bd_cuda_mean m, int64_t count) {
  const bd_rt_mixing mixing = mixing_of(m);
  BD_FOR_ITEMS(i, count) m.at[i] = bd_cuda_mixed(m.at[i], mixing, 0);
}
