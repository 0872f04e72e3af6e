// What the kernels of Adafactor's sums have in common.
#ifndef BD_RT_CUDA_ADAFACTOR_CUH
#define BD_RT_CUDA_ADAFACTOR_CUH
#include "runtime/cuda/factoring.cuh"

static inline __device__ float bd_cuda_pack_sum(const float *squares) {
  return (squares[0] + squares[1]) + (squares[2] + squares[3]);
}

static inline __device__ float bd_cuda_mixed(float kept, bd_rt_mixing mixing, double sum) {
  return mixing.keep * kept + mixing.share * (float)sum;
}

static inline __device__ double bd_cuda_group_sum(const double *lanes, int64_t count,
                                                  int64_t group) {
  return bd_cuda_sum<32>(lanes + group, (count - group + BD_CUDA_GROUPS - 1) / BD_CUDA_GROUPS,
                         BD_CUDA_GROUPS);
}
#endif
