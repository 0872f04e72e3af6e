// The end of a step, but for the updates.
#include "runtime/cuda/packs.cuh"

enum { WARP = 32, SQUARES_AHEAD = 4 }; // packs that a lane reads before it adds them up

static __global__ void narrow(int dtype, const float *wide, uint16_t *halves, int64_t count) {
  BD_FOR_ITEMS(i, count) halves[i] = bd_rt_to_half(dtype, wide[i]);
}

static __global__ void add(float *sum, const float *more, int64_t count) {
  BD_FOR_ITEMS(i, count) sum[i] += more[i];
}

// Tensors whose squares are summed by one launch. Tensor t has lanes start[t] to start[t + 1] - 1,
// a multiple of BD_CUDA_SQUARE_GROUPS that its count alone decides, and so does the order of its
// sum.
typedef struct square_list {
  int tensors;
  int64_t start[BD_RT_MOST_SQUARES + 1];
  bd_rt_squares of[BD_RT_MOST_SQUARES];
} square_list;

static __device__ int tensor_of(const square_list &list, int64_t lane) {
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

static __global__ void BD_ROOM(4) square_lanes(square_list list, double *partials) {
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
static __global__ void BD_ROOM(1)
    sum_groups(square_list list, const double *partials, double *sums) {
  BD_FOR_ITEMS(i, (int64_t)list.tensors * BD_CUDA_SQUARE_GROUPS) {
    const int64_t t = i / BD_CUDA_SQUARE_GROUPS, group = i % BD_CUDA_SQUARE_GROUPS;
    const int64_t each = (list.start[t + 1] - list.start[t]) / BD_CUDA_SQUARE_GROUPS;
    sums[i] = bd_cuda_sum<32>(partials + list.start[t] + group, each, BD_CUDA_SQUARE_GROUPS);
  }
}

static __global__ void BD_ROOM(1) sum_tensors(square_list list, const double *sums) {
  BD_FOR_ITEMS(t, list.tensors)
  *list.of[t].out = bd_cuda_sum<64>(sums + t * BD_CUDA_SQUARE_GROUPS, BD_CUDA_SQUARE_GROUPS, 1);
}

static __global__ void add_loss(double *sum, const float *loss) {
  BD_FOR_ITEMS(i, 1) sum[i] += (double)loss[i];
}

static __global__ void set(float *out, float value) {
  BD_FOR_ITEMS(i, 1) out[i] = value;
}

void bd_cuda_narrow(const bd_cuda_queue *queue, int dtype, const float *wide, uint16_t *halves,
                    int64_t count) {
  if (count > 0)
    BD_LAUNCH(narrow, blocks_of(queue, count), BD_CUDA_THREADS, queue->stream, dtype, wide, halves,
              count);
}

void bd_cuda_add(const bd_cuda_queue *queue, float *sum, const float *more, int64_t count) {
  if (count > 0)
    BD_LAUNCH(add, blocks_of(queue, count), BD_CUDA_THREADS, queue->stream, sum, more, count);
}

static int64_t lanes_of(int64_t count) {
  const int64_t groups = BD_CUDA_SQUARE_GROUPS;
  const int64_t lanes = (count / 16 + groups - 1) / groups * groups;
  if (lanes < groups) return groups;
  return bd_rt_least(lanes, BD_CUDA_LANES);
}

static void sum_list(const bd_cuda_queue *queue, const square_list *list, double *partials) {
  double *const sums = partials + BD_CUDA_SQUARE_LANES;
  BD_LAUNCH(square_lanes, blocks_of(queue, list->start[list->tensors]), BD_CUDA_THREADS,
            queue->stream, *list, partials);
  BD_LAUNCH(sum_groups, list->tensors * BD_CUDA_SQUARE_GROUPS / WARP, WARP, queue->stream, *list,
            (const double *)partials, sums);
  BD_LAUNCH(sum_tensors, list->tensors, 1, queue->stream, *list, (const double *)sums);
}

void bd_cuda_square_sums(const bd_cuda_queue *queue, int tensors, const bd_rt_squares *squares,
                         double *partials) {
  square_list list = {};
  for (int t = 0; t < tensors; t++) {
    const int64_t lanes = lanes_of(squares[t].count), start = list.start[list.tensors];
    if (start + lanes > BD_CUDA_SQUARE_LANES) {
      sum_list(queue, &list, partials);
      list = {};
    }
    list.of[list.tensors++] = squares[t];
    list.start[list.tensors] = list.start[list.tensors - 1] + lanes;
  }
  if (list.tensors > 0) sum_list(queue, &list, partials);
}

void bd_cuda_add_loss(const bd_cuda_queue *queue, double *sum, const float *loss) {
  BD_LAUNCH(add_loss, 1, 1, queue->stream, sum, loss);
}

void bd_cuda_set(const bd_cuda_queue *queue, float *out, float value) {
  BD_LAUNCH(set, 1, 1, queue->stream, out, value);
}
