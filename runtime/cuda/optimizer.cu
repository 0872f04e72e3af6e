// The end of a step, element by element with the arithmetic of the CPU's.
#include "runtime/cuda/device.cuh"

enum { WARP = 32, SQUARES_AHEAD = 8 }; // numbers that a lane reads before it adds them up

// Where element `i` of the rule lies in the model's buffer.
static __device__ int64_t place_of(const bd_rt_rule &u, int64_t i) {
  return u.row ? i / u.row * u.stride + i % u.row : i;
}

// With the rate of all elements, which a thread finds once.
template <typename optimizer>
static __device__ bd_rt_rule at_pace(bd_rt_rule u, bd_cuda_pace pace) {
  u.factor = pace.factor;
  u.rate = optimizer::rate(u, pace.rate);
  u.shrink = pace.shrink;
  u.correction2 = pace.correction2;
  return u;
}

struct plain_rate {
  static __device__ float rate(const bd_rt_rule &, float rate) { return rate; }
};

// Each gives what element `i`, now `w`, becomes, and changes the moments. AdamW (Loshchilov and
// Hutter 2019) and Adam with PyTorch's order of operations.
struct adam : plain_rate {
  static __device__ float next(const bd_rt_rule &u, int64_t i, float w) {
    const float g = u.gradient[i] * u.factor + u.decay * w;
    const float m = u.beta1 * u.first[i] + (1 - u.beta1) * g;
    const float v = u.beta2 * u.second[i] + (1 - u.beta2) * g * g;
    u.first[i] = m;
    u.second[i] = v;
    return w * u.shrink - u.rate * (m / (sqrtf(v) / u.correction2 + u.eps));
  }
};

struct momentum : plain_rate {
  static __device__ float next(const bd_rt_rule &u, int64_t i, float w) {
    const float m = u.beta1 * u.first[i] + (u.gradient[i] * u.factor + u.decay * w);
    u.first[i] = m;
    return w - u.rate * m;
  }
};

struct adafactor {
  static __device__ float rate(const bd_rt_rule &u, float rate) {
    return bd_rt_factored_rate(&u.factors, rate);
  }
  static __device__ float next(const bd_rt_rule &u, int64_t i, float w) {
    const bd_rt_factors *const f = &u.factors;
    const float update = bd_rt_factored(f, u.gradient[i] * u.factor, (f->first + i) / f->columns,
                                        (f->first + i) % f->columns);
    return w * u.shrink - u.rate * update;
  }
};

struct sgd : plain_rate {
  static __device__ float next(const bd_rt_rule &u, int64_t i, float w) {
    return w - u.rate * (u.gradient[i] * u.factor + u.decay * w);
  }
};

template <typename optimizer>
static __global__ void update(bd_rt_rule rule, const bd_cuda_pace *pace) {
  const bd_rt_rule u = at_pace<optimizer>(rule, *pace);
  BD_FOR_ITEMS(i, u.count) {
    const int64_t at = place_of(u, i), w = u.halves ? i : at;
    const float next = optimizer::next(u, i, u.weight[w]);
    u.weight[w] = next;
    if (u.halves) u.halves[at] = bd_rt_to_half(u.half_dtype, next);
  }
}

// Without masters. A thread takes elements of a tile that are BD_RT_DRAW_LANES apart: one draw
// serves them all, or two where the rank's part does not begin with a tile.
template <typename optimizer>
static __global__ void update_rounded(bd_rt_rule rule, const bd_cuda_pace *pace) {
  const bd_rt_rule u = at_pace<optimizer>(rule, *pace);
  BD_FOR_ITEMS(item, (u.count + BD_RT_DRAW_TILE - 1) / BD_RT_DRAW_TILE * BD_RT_DRAW_LANES) {
    const int64_t start = item / BD_RT_DRAW_LANES * BD_RT_DRAW_TILE + item % BD_RT_DRAW_LANES;
    int64_t held = -1;
    uint64_t low = 0, high = 0;
    for (int k = 0; k < BD_RT_DRAW_TILE / BD_RT_DRAW_LANES; k++) {
      const int64_t i = start + k * BD_RT_DRAW_LANES;
      if (i >= u.count) break;
      const int64_t at = place_of(u, i), element = bd_rt_drawn_element(&rule.draws, i);
      const int64_t number = bd_rt_draw_number(element);
      const int part = bd_rt_draw_part(element);
      if (number != held) {
        const bd_philox_words draw = bd_rt_draw(&rule.draws, pace->step, number);
        low = draw.word[0] | (uint64_t)draw.word[1] << 32;
        high = draw.word[2] | (uint64_t)draw.word[3] << 32;
        held = number;
      }
      const float next = optimizer::next(u, i, bd_rt_from_bf16(u.halves[at]));
      u.halves[at] = bd_rt_round_bf16(next, (uint32_t)((part < 4 ? low : high) >> part % 4 * 16));
    }
  }
}

static __global__ void narrow(int dtype, const float *wide, uint16_t *halves, int64_t count) {
  BD_FOR_ITEMS(i, count) halves[i] = bd_rt_to_half(dtype, wide[i]);
}

static __global__ void widen(int dtype, const uint16_t *halves, float *wide, int64_t count) {
  BD_FOR_ITEMS(i, count) wide[i] = bd_rt_from_half(dtype, halves[i]);
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
  int low = 0, high = list.tensors;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (list.start[middle] <= lane)
      low = middle;
    else
      high = middle;
  }
  return low;
}

// Lane l of a tensor sums elements l, l + lanes, l + 2 lanes, ... Loads do not wait for each other.
static __global__ void square_lanes(square_list list, double *partials) {
  BD_FOR_ITEMS(at, list.start[list.tensors]) {
    const int t = tensor_of(list, at);
    const int64_t lanes = list.start[t + 1] - list.start[t], count = list.of[t].count;
    const float *const data = list.of[t].data;
    float next[SQUARES_AHEAD];
    double sum = 0;
    int64_t i = at - list.start[t];
    for (; i + (SQUARES_AHEAD - 1) * lanes < count; i += SQUARES_AHEAD * lanes) {
      for (int k = 0; k < SQUARES_AHEAD; k++)
        next[k] = data[i + k * lanes];
      for (int k = 0; k < SQUARES_AHEAD; k++)
        sum += (double)next[k] * (double)next[k];
    }
    for (; i < count; i += lanes)
      sum += (double)data[i] * (double)data[i];
    partials[at] = sum;
  }
}

// sums[t * BD_CUDA_SQUARE_GROUPS + g] = the sum of the g-th part of tensor t's lanes.
static __global__ void sum_groups(square_list list, const double *partials, double *sums) {
  BD_FOR_ITEMS(i, (int64_t)list.tensors * BD_CUDA_SQUARE_GROUPS) {
    const int64_t t = i / BD_CUDA_SQUARE_GROUPS, group = i % BD_CUDA_SQUARE_GROUPS;
    const int64_t each = (list.start[t + 1] - list.start[t]) / BD_CUDA_SQUARE_GROUPS;
    sums[i] = bd_cuda_sum(partials + list.start[t] + group * each, each);
  }
}

static __global__ void sum_tensors(square_list list, const double *sums) {
  BD_FOR_ITEMS(t, list.tensors)
  *list.of[t].out = bd_cuda_sum(sums + t * BD_CUDA_SQUARE_GROUPS, BD_CUDA_SQUARE_GROUPS);
}

static __global__ void add_loss(double *sum, const float *loss) {
  BD_FOR_ITEMS(i, 1) sum[i] += (double)loss[i];
}

static __global__ void set(float *out, float value) {
  BD_FOR_ITEMS(i, 1) out[i] = value;
}

template <typename optimizer>
static void apply(const bd_cuda_queue *queue, const bd_rt_rule *rule, const bd_cuda_pace *pace) {
  const int64_t tiles = (rule->count + BD_RT_DRAW_TILE - 1) / BD_RT_DRAW_TILE;
  if (rule->weight)
    BD_LAUNCH(update<optimizer>, blocks_of(queue, rule->count), BD_CUDA_THREADS, queue->stream,
              *rule, pace);
  else
    BD_LAUNCH(update_rounded<optimizer>, blocks_of(queue, tiles * BD_RT_DRAW_LANES),
              BD_CUDA_THREADS, queue->stream, *rule, pace);
}

void bd_cuda_apply(const bd_cuda_queue *queue, const bd_rt_rule *rule, const bd_cuda_pace *pace) {
  if (rule->count == 0) return;
  switch (rule->kind) {
  case BD_RT_ADAMW:
  case BD_RT_ADAM:
    apply<adam>(queue, rule, pace);
    break;
  case BD_RT_MOMENTUM:
    apply<momentum>(queue, rule, pace);
    break;
  case BD_RT_ADAFACTOR:
    apply<adafactor>(queue, rule, pace);
    break;
  default:
    apply<sgd>(queue, rule, pace);
    break;
  }
}

void bd_cuda_narrow(const bd_cuda_queue *queue, int dtype, const float *wide, uint16_t *halves,
                    int64_t count) {
  if (count > 0)
    BD_LAUNCH(narrow, blocks_of(queue, count), BD_CUDA_THREADS, queue->stream, dtype, wide, halves,
              count);
}

void bd_cuda_widen(const bd_cuda_queue *queue, int dtype, const uint16_t *halves, float *wide,
                   int64_t count) {
  if (count > 0)
    BD_LAUNCH(widen, blocks_of(queue, count), BD_CUDA_THREADS, queue->stream, dtype, halves, wide,
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
