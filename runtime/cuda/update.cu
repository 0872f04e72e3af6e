// The optimizers, element by element with the arithmetic of the CPU's.
#include "runtime/cuda/packs.cuh"

enum {
  AHEAD = 2, // packs of each array that a thread reads before it computes
  CHUNK = AHEAD * BD_CUDA_THREADS * BD_CUDA_PACK, // elements, a block's at once
  MOST_PARTS = 35,
  ROUND_THREADS = 128, // of a block: what has registers left takes half of one of 256
};

// What is the same for all elements of a rule.
typedef struct settings {
  float factor, rate, shrink, decay, beta1, beta2, eps, correction2;
} settings;

// What elements are computed of. What an optimizer has none of is nowhere.
template <int width> struct numbers {
  bd_cuda_floats<width> weight, gradient, first, second, average;
};

struct plain {
  static constexpr bool has_first = false, has_second = false, has_average = false;
  static __device__ float rate(const bd_cuda_factoring &, float rate) { return rate; }
};

// Each gives what element `e`, now `w`, becomes, and changes the moments. AdamW (Loshchilov and
// Hutter 2019) and Adam with PyTorch's order of operations.
struct adam : plain {
  static constexpr bool has_first = true, has_second = true;
  template <int width>
  static __device__ float next(const settings &u, numbers<width> &n, int e, float w) {
    const float g = n.gradient.at[e] * u.factor + u.decay * w;
    const float m = u.beta1 * n.first.at[e] + (1 - u.beta1) * g;
    const float v = u.beta2 * n.second.at[e] + (1 - u.beta2) * g * g;
    n.first.at[e] = m;
    n.second.at[e] = v;
    return w * u.shrink - u.rate * (m / (sqrtf(v) / u.correction2 + u.eps));
  }
};

struct momentum : plain {
  static constexpr bool has_first = true;
  template <int width>
  static __device__ float next(const settings &u, numbers<width> &n, int e, float w) {
    const float g = n.gradient.at[e] * u.factor + u.decay * w;
    const float m = u.beta1 * n.first.at[e] + g;
    n.first.at[e] = m;
    return w - u.rate * m;
  }
};

struct adafactor : plain {
  static constexpr bool has_average = true;
  static __device__ float rate(const bd_cuda_factoring &f, float rate) {
    bd_rt_factors means = {};
    means.mean = f.mean;
    return bd_rt_factored_rate(&means, rate);
  }
  template <int width>
  static __device__ float next(const settings &u, numbers<width> &n, int e, float w) {
    const float update = n.gradient.at[e] * u.factor * bd_cuda_inverse_root(n.average.at[e]);
    return w * u.shrink - u.rate * update;
  }
};

struct sgd : plain {
  template <int width>
  static __device__ float next(const settings &u, numbers<width> &n, int e, float w) {
    return w - u.rate * (n.gradient.at[e] * u.factor + u.decay * w);
  }
};

// Of a rule, or of a part, which have members of the same names.
template <typename optimizer, typename rule>
static __device__ settings settings_of(const rule &u, const bd_cuda_factoring &f,
                                       bd_cuda_pace pace) {
  return {
      pace.factor,     optimizer::rate(f, pace.rate), pace.shrink, u.decay, u.beta1, u.beta2, u.eps,
      pace.correction2};
}

template <typename optimizer> static __device__ float inverse_of(const bd_cuda_factoring &f) {
  if constexpr (optimizer::has_average)
    return bd_cuda_inverse_mean(f);
  else
    return 0;
}

template <typename optimizer>
static __device__ bd_cuda_spot first_spot(const bd_cuda_factoring &f, int64_t i) {
  if constexpr (optimizer::has_average)
    return bd_cuda_spot_of(f, i);
  else
    return {};
}

// All but the weight of the elements from `i` on, which are at `spot`.
template <typename optimizer, int width, typename rule>
static __device__ void load(const rule &u, const bd_cuda_factoring &f, const bd_cuda_spot &spot,
                            float inverse, int64_t i, numbers<width> *out) {
  out->gradient = bd_cuda_load<width>(u.gradient + i);
  if constexpr (optimizer::has_first) out->first = bd_cuda_load<width>(u.first + i);
  if constexpr (optimizer::has_second) out->second = bd_cuda_load<width>(u.second + i);
  if constexpr (optimizer::has_average) out->average = bd_cuda_averages<width>(f, inverse, spot);
}

template <typename optimizer, int width, typename rule>
static __device__ void store_moments(const rule &u, int64_t i, const numbers<width> &n) {
  if constexpr (optimizer::has_first) bd_cuda_store(u.first + i, n.first);
  if constexpr (optimizer::has_second) bd_cuda_store(u.second + i, n.second);
}

template <int width>
static __device__ void store_halves(int dtype, const bd_cuda_floats<width> &v, uint16_t *to) {
  uint16_t halves[width];
  if (dtype == BD_RT_F16)
    for (int e = 0; e < width; e++)
      halves[e] = bd_rt_to_f16(v.at[e]);
  else
    for (int e = 0; e < width; e++)
      halves[e] = bd_rt_to_bf16(v.at[e]);
  bd_cuda_store<width>(to, halves);
}

// A weight of several whose updates one launch makes.
typedef struct part {
  float *weight, *first, *second;
  uint16_t *halves;
  const float *gradient;
  const bd_cuda_pace *pace;
  int64_t count, chunk; // the first of its chunks
  bd_cuda_rows rows;
  float decay, beta1, beta2, eps;
  int32_t half_dtype, packs;
} part;
typedef struct part_list {
  int64_t parts, chunks;
  part of[MOST_PARTS];
} part_list;

static __device__ int part_of(const part_list &list, int64_t chunk) {
  int low = 0, high = (int)list.parts;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (list.of[middle].chunk <= chunk)
      low = middle;
    else
      high = middle;
  }
  return low;
}

// Past the end a thread reads the last pack again, so that no load waits for a question.
template <typename optimizer, int width>
static __device__ void update_chunk(const part &p, const bd_cuda_factoring &f, float inverse,
                                    int64_t chunk) {
  constexpr int step = BD_CUDA_THREADS * width;
  const int64_t begin = (chunk - p.chunk) * CHUNK + threadIdx.x * width;
  for (int64_t start = begin; start < begin + CHUNK; start += AHEAD * step) {
    numbers<width> n[AHEAD];
    int64_t at[AHEAD];
    for (int k = 0; k < AHEAD; k++) {
      const int64_t i = bd_cuda_least(start + k * step, p.count - width);
      at[k] = bd_cuda_place_of(p.rows, i);
      n[k].weight = bd_cuda_load<width>(p.weight + (p.halves ? i : at[k]));
      load<optimizer, width>(p, f, first_spot<optimizer>(f, i), inverse, i, &n[k]);
    }
    const settings u = settings_of<optimizer>(p, f, *p.pace);
    for (int k = 0; k < AHEAD; k++) {
      const int64_t i = start + k * step;
      if (i >= p.count) return;
      for (int e = 0; e < width; e++)
        n[k].weight.at[e] = optimizer::next(u, n[k], e, n[k].weight.at[e]);
      store_moments<optimizer>(p, i, n[k]);
      bd_cuda_store(p.weight + (p.halves ? i : at[k]), n[k].weight);
      if (p.halves) store_halves(p.half_dtype, n[k].weight, p.halves + at[k]);
    }
  }
}

// `f`: of the one part that there is where the optimizer has averages.
template <typename optimizer>
static __global__ void BD_ROOM(4) update(part_list list, bd_cuda_factoring f) {
  const float inverse = inverse_of<optimizer>(f);
  for (int64_t chunk = blockIdx.x; chunk < list.chunks; chunk += gridDim.x) {
    const part p = list.of[part_of(list, chunk)];
    if (p.packs)
      update_chunk<optimizer, BD_CUDA_PACK>(p, f, inverse, chunk);
    else
      update_chunk<optimizer, 1>(p, f, inverse, chunk);
  }
}

// Without masters. The elements that are a tile's of draws follow one another: a thread takes four
// neighbours of each of its 8 parts, and the four draws that serve them all.
template <typename optimizer>
static __global__ void round_tiles(bd_rt_rule rule, bd_cuda_rows rows, bd_cuda_factoring f,
                                   int64_t before, const bd_cuda_pace *pace) {
  const settings u = settings_of<optimizer>(rule, f, *pace);
  const float inverse = inverse_of<optimizer>(f);
  constexpr int width = BD_CUDA_PACK, of_tile = BD_RT_DRAW_LANES / width;
  constexpr int ahead = optimizer::has_first ? 2 : 4;
  BD_FOR_ITEMS(item, (before + rule.count + BD_RT_DRAW_TILE - 1) / BD_RT_DRAW_TILE * of_tile) {
    int64_t i = item / of_tile * BD_RT_DRAW_TILE + item % of_tile * width - before;
    const int64_t number = bd_rt_draw_number(bd_rt_drawn_element(&rule.draws, i));
    bd_cuda_spot spot = first_spot<optimizer>(f, i);
    bd_philox_words draws[width];
    for (int e = 0; e < width; e++)
      draws[e] = bd_rt_draw(&rule.draws, pace->step, number + e);
    BD_ROLLED
    for (int part = 0; part < 8; part += ahead, i += ahead * BD_RT_DRAW_LANES) {
      numbers<width> n[ahead];
      bd_cuda_halves<width> halves[ahead];
      for (int k = 0; k < ahead; k++) {
        const int64_t asked = i + k * BD_RT_DRAW_LANES;
        const int64_t near = bd_cuda_least(asked < 0 ? 0 : asked, rule.count - width);
        halves[k] = bd_cuda_load<width>(rule.halves + bd_cuda_place_of(rows, near));
        load<optimizer, width>(rule, f, bd_cuda_clamp(f, spot), inverse, near, &n[k]);
        bd_cuda_go_on(f, {0, BD_RT_DRAW_LANES}, &spot);
      }
      for (int k = 0; k < ahead; k++) {
        const int64_t asked = i + k * BD_RT_DRAW_LANES;
        uint16_t rounded[width];
        for (int e = 0; e < width; e++) {
          const float next = optimizer::next(u, n[k], e, bd_rt_from_bf16(halves[k].get(e)));
          rounded[e] = bd_rt_round_bf16(next, draws[e].word[k / 2] >> k % 2 * 16);
        }
        if (asked < 0 || asked >= rule.count) continue;
        store_moments<optimizer>(rule, asked, n[k]);
        bd_cuda_store<width>(rule.halves + bd_cuda_place_of(rows, asked), rounded);
      }
      for (int e = 0; e < width; e++)
        for (int word = 0; word + ahead / 2 < 4; word++)
          draws[e].word[word] = draws[e].word[word + ahead / 2];
    }
  }
}

// The same where elements lie otherwise. A thread takes elements of 256 that are BD_RT_DRAW_LANES
// apart: one draw serves them all, or two where these do not begin with a tile.
template <typename optimizer>
static __global__ void round_any(bd_rt_rule rule, bd_cuda_rows rows, bd_cuda_factoring f,
                                 const bd_cuda_pace *pace) {
  const settings u = settings_of<optimizer>(rule, f, *pace);
  const float inverse = inverse_of<optimizer>(f);
  BD_FOR_ITEMS(item, (rule.count + BD_RT_DRAW_TILE - 1) / BD_RT_DRAW_TILE * BD_RT_DRAW_LANES) {
    const int64_t start = item / BD_RT_DRAW_LANES * BD_RT_DRAW_TILE + item % BD_RT_DRAW_LANES;
    int64_t held = -1;
    uint64_t low = 0, high = 0;
    for (int k = 0; k < BD_RT_DRAW_TILE / BD_RT_DRAW_LANES; k++) {
      const int64_t i = start + k * BD_RT_DRAW_LANES;
      if (i >= rule.count) break;
      const int64_t at = bd_cuda_place_of(rows, i);
      const int64_t element = bd_rt_drawn_element(&rule.draws, i);
      const int64_t number = bd_rt_draw_number(element);
      const int part = bd_rt_draw_part(element);
      if (number != held) {
        const bd_philox_words draw = bd_rt_draw(&rule.draws, pace->step, number);
        low = draw.word[0] | (uint64_t)draw.word[1] << 32;
        high = draw.word[2] | (uint64_t)draw.word[3] << 32;
        held = number;
      }
      numbers<1> n;
      load<optimizer, 1>(rule, f, first_spot<optimizer>(f, i), inverse, i, &n);
      const float next = optimizer::next(u, n, 0, bd_rt_from_bf16(rule.halves[at]));
      store_moments<optimizer>(rule, i, n);
      rule.halves[at] =
          bd_rt_round_bf16(next, (uint32_t)((part < 4 ? low : high) >> part % 4 * 16));
    }
  }
}

// Whether the elements can be taken four by four.
static bool comes_in_packs(const bd_rt_rule *u, const bd_cuda_rows &rows,
                           const bd_cuda_factoring &f) {
  const int size = sizeof(float);
  return u->count % BD_CUDA_PACK == 0 && bd_cuda_rows_fit(rows) &&
         bd_cuda_fits(u->gradient, size) && bd_cuda_fits(u->weight, size) &&
         bd_cuda_fits(u->first, size) && bd_cuda_fits(u->second, size) &&
         bd_cuda_fits(u->halves, sizeof *u->halves) &&
         (u->kind != BD_RT_ADAFACTOR || bd_cuda_factoring_fits(f));
}

// Whether what follows element -before of the rule, 256 by 256, are tiles of draws.
static bool comes_in_tiles(const bd_rt_rule *u, const bd_cuda_factoring &f, int64_t *before) {
  const bd_rt_draws *const d = &u->draws;
  const int64_t tile = BD_RT_DRAW_TILE, last = d->rank - 1;
  if (u->kind == BD_RT_ADAFACTOR && f.rows.row < BD_RT_DRAW_LANES) return false;
  *before = last > 0 ? 0 : (d->first + (last == 0 ? d->start[0] : 0)) % tile;
  if (last <= 0) return *before % BD_CUDA_PACK == 0;
  return d->first % tile == 0 && d->dims[last] % tile == 0 && d->start[last] % tile == 0 &&
         d->extent[last] % tile == 0;
}

template <typename optimizer>
static void apply_rounded(const bd_cuda_queue *queue, const bd_rt_rule *u,
                          const bd_cuda_pace *pace) {
  const bd_cuda_rows rows = bd_cuda_rows_of(u->row, u->stride);
  const bd_cuda_factoring f = bd_cuda_factoring_of(&u->factors);
  const int64_t tile = BD_RT_DRAW_TILE, lanes = BD_RT_DRAW_LANES;
  int64_t before = 0;
  if (comes_in_packs(u, rows, f) && comes_in_tiles(u, f, &before))
    BD_LAUNCH(round_tiles<optimizer>,
              blocks_of(queue, (before + u->count + tile - 1) / tile * lanes / BD_CUDA_PACK,
                        ROUND_THREADS),
              ROUND_THREADS, queue->stream, *u, rows, f, before, pace);
  else
    BD_LAUNCH(round_any<optimizer>, blocks_of(queue, (u->count + tile - 1) / tile * lanes),
              BD_CUDA_THREADS, queue->stream, *u, rows, f, pace);
}

template <typename optimizer>
static void apply_list(const bd_cuda_queue *queue, part_list *list, const bd_cuda_factoring &f) {
  if (list->parts > 0)
    BD_LAUNCH(update<optimizer>, (int)bd_rt_least(list->chunks, queue->most_blocks),
              BD_CUDA_THREADS, queue->stream, *list, f);
  *list = {};
}

static void put(part_list *list, const bd_rt_rule *u, const bd_cuda_pace *pace,
                const bd_cuda_factoring &f) {
  part *const p = &list->of[list->parts++];
  p->weight = u->weight, p->first = u->first, p->second = u->second, p->halves = u->halves;
  p->gradient = u->gradient, p->pace = pace;
  p->count = u->count, p->chunk = list->chunks;
  p->rows = bd_cuda_rows_of(u->row, u->stride);
  p->decay = u->decay, p->beta1 = u->beta1, p->beta2 = u->beta2, p->eps = u->eps;
  p->half_dtype = u->half_dtype, p->packs = comes_in_packs(u, p->rows, f);
  list->chunks += (u->count + CHUNK - 1) / CHUNK;
}

// Those of the rules that are of the kind.
template <typename optimizer>
static void apply(const bd_cuda_queue *queue, int kind, int count, const bd_rt_rule *const *rules,
                  const bd_cuda_pace *const *paces) {
  const int most = optimizer::has_average ? 1 : MOST_PARTS;
  part_list list = {};
  bd_cuda_factoring f = {};
  for (int i = 0; i < count; i++) {
    const bd_rt_rule *const u = rules[i];
    if (u->kind != kind || u->count == 0) continue;
    if (!u->weight) {
      apply_rounded<optimizer>(queue, u, paces[i]);
      continue;
    }
    if (optimizer::has_average) f = bd_cuda_factoring_of(&u->factors);
    put(&list, u, paces[i], f);
    if (list.parts == most) apply_list<optimizer>(queue, &list, f);
  }
  apply_list<optimizer>(queue, &list, f);
}

void bd_cuda_apply(const bd_cuda_queue *queue, int count, const bd_rt_rule *const *rules,
                   const bd_cuda_pace *const *paces) {
  apply<adam>(queue, BD_RT_ADAMW, count, rules, paces);
  apply<adam>(queue, BD_RT_ADAM, count, rules, paces);
  apply<momentum>(queue, BD_RT_MOMENTUM, count, rules, paces);
  apply<adafactor>(queue, BD_RT_ADAFACTOR, count, rules, paces);
  apply<sgd>(queue, BD_RT_SGD, count, rules, paces);
}
