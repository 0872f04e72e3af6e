// Numbers of a step on their way to the kernels of a graph, whose own arguments stay what they are.
#include "runtime/cuda/device.cuh"

BD_ENTRY bd_k_put(bd_cuda_kept_list from, int count, bd_cuda_kept *to) {
  BD_FOR_ITEMS(i, count) to[i] = from.of[i];
}
