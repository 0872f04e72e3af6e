// What sinks take of attention without them: with s a head's sink, a row's out becomes out exp(lse
// - lse') and its lse becomes lse' = log(exp(lse) + exp(s)).
#include "runtime/cuda/packs.cuh"

typedef struct place {
  int64_t batch, row, head;
} place;

static __device__ place place_of(const bd_cuda_sinks &s, int64_t row) {
  return {row / s.heads / s.rows, row / s.heads % s.rows, row % s.heads};
}

static __device__ int64_t lse_at(const bd_cuda_sinks &s, const place &at) {
  return at.batch * s.lse_batch + at.row * s.lse_row + at.head;
}

static __device__ float sink_of(const bd_cuda_sinks &s, const uint16_t *sinks, const place &at) {
  return bd_rt_from_half((int)s.dtype, sinks[at.head]);
}

BD_ENTRY bd_k_leave_to_sinks(bd_cuda_sinks s, const uint16_t *sinks, const float *lse,
                             uint16_t *out) {
  const int64_t across = s.width / BD_CUDA_PACK;
  BD_FOR_ITEMS(i, s.batch * s.rows * s.heads * across) {
    const place at = place_of(s, i / across);
    const float share = 1 / (1 + expf(sink_of(s, sinks, at) - lse[lse_at(s, at)]));
    uint16_t *const from = out + at.batch * s.batch_stride + at.row * s.row_stride +
                           at.head * s.width + i % across * BD_CUDA_PACK;
    const bd_cuda_halves<BD_CUDA_PACK> whole = bd_cuda_load<BD_CUDA_PACK, true>(from);
    bd_cuda_halves<BD_CUDA_PACK> left = {};
    for (int e = 0; e < BD_CUDA_PACK; e++) {
      const float value = share * bd_rt_from_half((int)s.dtype, whole.get(e));
      left.put(e, bd_rt_to_half((int)s.dtype, value));
    }
    bd_cuda_store<BD_CUDA_PACK>(from, left);
  }
}

BD_ENTRY bd_k_join_sinks(bd_cuda_sinks s, const uint16_t *sinks, float *lse) {
  BD_FOR_ITEMS(i, s.batch * s.rows * s.heads) {
    const place at = place_of(s, i);
    const float sink = sink_of(s, sinks, at), own = lse[lse_at(s, at)];
    const bool less = own < sink;
    const float most = less ? sink : own, least = less ? own : sink;
    lse[lse_at(s, at)] = most + log1pf(expf(least - most));
  }
}
