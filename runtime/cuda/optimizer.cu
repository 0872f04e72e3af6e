// The end of a step, but for the updates.
#include "runtime/cuda/packs.cuh"

enum { SQUARES_AHEAD = 4 }; // packs that a lane reads before it adds them up

BD_ENTRY bd_k_narrow(int dtype, const float *wide, uint16_t *halves, int64_t count) {
  BD_FOR_ITEMS(i, count) halves[i] = bd_rt_to_half(dtype, wide[i]);
}

BD_ENTRY bd_k_add(float *sum, const float *more, int64_t count) {
  BD_FOR_ITEMS(i, count) sum[i] += more[i];
}

static __device__ int tensor_of(const bd_cuda_square_list &list, int64_t lane) {
  return bd_cuda_member_of(list.tensors, lane, [&](int i) { return list.start[i]; });
}

static __device__ double add_square(double sum, float number) {
  return sum + (double)number * (double)number;
}

// A pack that begins at a multiple of its size, or does not.
template <bool fits, typename number>
static __device__ bd_cuda_floats<BD_CUDA_PACK> pack_of(const number *data, int64_t pack) {
  const number *const at = data + pack * BD_CUDA_PACK;
  bd_cuda_floats<BD_CUDA_PACK> out;
  if constexpr (fits) {
    out = bd_cuda_load_floats<BD_CUDA_PACK>(at);
  } else {
    for (int e = 0; e < BD_CUDA_PACK; e++)
      out.at[e] = bd_cuda_load_floats<1>(at + e).at[0];
  }
  return out;
}

// Loads do not wait for each other. Past the end the last pack is read again.
template <bool fits, typename number>
static __device__ double packs_sum(const number *data, int64_t lane, int64_t lanes, int64_t packs) {
  double sum = 0;
  for (int64_t pack = lane; pack < packs; pack += SQUARES_AHEAD * lanes) {
    bd_cuda_floats<BD_CUDA_PACK> next[SQUARES_AHEAD];
    for (int k = 0; k < SQUARES_AHEAD; k++)
      next[k] = pack_of<fits>(data, bd_cuda_least(pack + k * lanes, packs - 1));
    for (int k = 0; k < SQUARES_AHEAD; k++)
      for (int e = 0; e < BD_CUDA_PACK; e++)
        sum = add_square(sum, pack + k * lanes < packs ? next[k].at[e] : 0);
  }
  return sum;
}

// Lane l of a tensor sums packs of four elements l, l + lanes, l + 2 lanes, ... and, of the rest
// that is no pack, one element. Wherever the tensor begins, the order is the same.
template <typename number>
static __device__ double lane_sum(const number *data, int64_t count, int64_t lane, int64_t lanes) {
  const int64_t packs = count / BD_CUDA_PACK, rest = packs * BD_CUDA_PACK + lane;
  const double sum = bd_cuda_fits(data, sizeof(number))
                         ? packs_sum<true>(data, lane, lanes, packs)
                         : packs_sum<false>(data, lane, lanes, packs);
  return rest < count ? add_square(sum, bd_cuda_load_floats<1>(data + rest).at[0]) : sum;
}

BD_ENTRY BD_ROOM(4) bd_k_square_lanes(bd_cuda_square_list list, double *partials) {
  BD_FOR_ITEMS(at, list.start[list.tensors]) {
    const int t = tensor_of(list, at);
    const bd_rt_squares &of = list.of[t];
    const int64_t lanes = list.start[t + 1] - list.start[t], lane = at - list.start[t];
    partials[at] = of.dtype == BD_RT_F32
                       ? lane_sum((const float *)of.data, of.count, lane, lanes)
                       : lane_sum((const uint16_t *)of.data, of.count, lane, lanes);
  }
}

// sums[t * BD_CUDA_SQUARE_GROUPS + g] = the sum of tensor t's lanes g, g + groups, ...
BD_ENTRY BD_ROOM(1)
    bd_k_sum_groups(bd_cuda_square_list list, const double *partials, double *sums) {
  BD_FOR_ITEMS(i, (int64_t)list.tensors * BD_CUDA_SQUARE_GROUPS) {
    const int64_t t = i / BD_CUDA_SQUARE_GROUPS, group = i % BD_CUDA_SQUARE_GROUPS;
    const int64_t each = (list.start[t + 1] - list.start[t]) / BD_CUDA_SQUARE_GROUPS;
    sums[i] = bd_cuda_sum<32>(partials + list.start[t] + group, each, BD_CUDA_SQUARE_GROUPS);
  }
}

BD_ENTRY BD_ROOM(1) bd_k_sum_tensors(bd_cuda_square_list list, const double *sums) {
  BD_FOR_ITEMS(t, list.tensors)
  *list.of[t].out = bd_cuda_sum<64>(sums + t * BD_CUDA_SQUARE_GROUPS, BD_CUDA_SQUARE_GROUPS, 1);
}

BD_ENTRY bd_k_add_loss(double *sum, const float *loss) {
  BD_FOR_ITEMS(i, 1) sum[i] += (double)loss[i];
}

BD_ENTRY bd_k_set(float *out, float value) {
  BD_FOR_ITEMS(i, 1) out[i] = value;
}
