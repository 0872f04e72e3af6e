// Sums of the gradients that tiles of attention make, four numbers a thread.
#include "runtime/cuda/packs.cuh"

static __device__ bd_cuda_floats<BD_CUDA_PACK> widened(int dtype, const uint16_t *from) {
  const bd_cuda_halves<BD_CUDA_PACK> halves = bd_cuda_load<BD_CUDA_PACK, true>(from);
  bd_cuda_floats<BD_CUDA_PACK> out;
  for (int e = 0; e < BD_CUDA_PACK; e++)
    out.at[e] = bd_rt_from_half(dtype, halves.get(e));
  return out;
}

// sum += tile, or, where nothing is there yet, sum = tile.
BD_ENTRY bd_k_add_tile(int dtype, int first, const uint16_t *tile, float *sum, int64_t packs) {
  BD_FOR_ITEMS(i, packs) {
    bd_cuda_floats<BD_CUDA_PACK> more = widened(dtype, tile + i * BD_CUDA_PACK);
    if (!first) {
      const bd_cuda_floats<BD_CUDA_PACK> before =
          bd_cuda_load<BD_CUDA_PACK>(sum + i * BD_CUDA_PACK);
      for (int e = 0; e < BD_CUDA_PACK; e++)
        more.at[e] += before.at[e];
    }
    bd_cuda_store<BD_CUDA_PACK>(sum + i * BD_CUDA_PACK, more);
  }
}

BD_ENTRY bd_k_round_head_rows(bd_cuda_head_rows r, const float *sum, uint16_t *out) {
  const int64_t across = r.width / BD_CUDA_PACK;
  BD_FOR_ITEMS(i, r.heads * r.rows * across) {
    const int64_t row = i / across, head = row / r.rows;
    const bd_cuda_floats<BD_CUDA_PACK> wide =
        bd_cuda_load<BD_CUDA_PACK, true>(sum + i * BD_CUDA_PACK);
    bd_cuda_halves<BD_CUDA_PACK> halves = {};
    for (int e = 0; e < BD_CUDA_PACK; e++)
      halves.put(e, bd_rt_to_half(r.dtype, wide.at[e]));
    bd_cuda_store<BD_CUDA_PACK>(
        out + row % r.rows * r.row_stride + head * r.width + i % across * BD_CUDA_PACK, halves);
  }
}
