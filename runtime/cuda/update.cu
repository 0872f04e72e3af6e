// The optimizers, element by element with the arithmetic of the CPU's.
#include "runtime/cuda/factoring.cuh"

// Packs of each array that a thread reads before it computes.
enum { AHEAD = BD_CUDA_CHUNK / (BD_CUDA_THREADS * BD_CUDA_PACK) };

// What is the same for all elements of a rule.
typedef struct settings {
  float factor, rate, shrink, decay, beta1, beta2, eps, correction2;
} settings;

// What elements are computed of. What an optimizer has none of is nowhere.
template <int width> struct numbers {
  bd_cuda_floats<width> weight, gradient, first, second, average;
};

// Members of a part: where its averages are, if it has some.
struct without_averages {};
struct with_averages {
  bd_cuda_factoring f;
};

// How a thread holds a part of the launch's: as a copy, whose members are in registers.
struct plain {
  using averages = without_averages;
  template <typename member> using held = const member;
  static constexpr bool has_first = false, has_second = false, has_average = false;
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

// A copy would take one register more than there is on sm_80.
struct momentum : plain {
  template <typename member> using held = const member &;
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
  using averages = with_averages;
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

// A weight of several whose updates one launch makes, as update.h says.
template <typename optimizer> struct part : optimizer::averages, bd_cuda_rule_part {};
template <typename optimizer> struct rounded : part<optimizer>, bd_cuda_rounding {};
template <typename member> struct part_list {
  int64_t parts, chunks;
  member of[(BD_CUDA_LIST_BYTES - 2 * (int)sizeof(int64_t)) / (int)sizeof(member)];
};
static_assert(sizeof(part<adam>) == sizeof(bd_cuda_rule_part) &&
                  sizeof(part<adafactor>) ==
                      sizeof(bd_cuda_factoring) + sizeof(bd_cuda_rule_part) &&
                  sizeof(rounded<adafactor>) == sizeof(part<adafactor>) + sizeof(bd_cuda_rounding),
              "the host puts one behind another");

template <typename member>
static __device__ const part_list<member> &list_of(const bd_cuda_rule_list &list) {
  return *(const part_list<member> *)(const void *)&list;
}

template <typename member>
static __device__ int part_of(const part_list<member> &list, int64_t chunk) {
  return bd_cuda_member_of((int)list.parts, chunk, [&](int i) { return list.of[i].chunk; });
}

template <typename optimizer> static __device__ settings settings_of(const part<optimizer> &u) {
  const bd_cuda_pace pace = *u.pace;
  float rate = pace.rate;
  if constexpr (optimizer::has_average) rate = optimizer::rate(u.f, rate);
  return {pace.factor, rate, pace.shrink, u.decay, u.beta1, u.beta2, u.eps, pace.correction2};
}

template <typename optimizer> static __device__ float inverse_of(const part<optimizer> &u) {
  if constexpr (optimizer::has_average)
    return bd_cuda_inverse_mean(u.f);
  else
    return 0;
}

template <typename optimizer>
static __device__ bd_cuda_spot first_spot(const part<optimizer> &u, int64_t i) {
  if constexpr (optimizer::has_average)
    return bd_cuda_spot_of(u.f, i);
  else
    return {};
}

template <typename optimizer>
static __device__ float row_scale_of(const part<optimizer> &u, float inverse, int32_t row) {
  if constexpr (optimizer::has_average)
    return bd_cuda_row_scale(u.f, inverse, row);
  else
    return 1;
}

template <typename optimizer, int width>
static __device__ void load_columns(const part<optimizer> &u, int32_t column,
                                    bd_cuda_floats<width> *out) {
  if constexpr (optimizer::has_average) *out = bd_cuda_load<width>(u.f.column + column);
}

template <typename optimizer, int width>
static __device__ void load_averages(const part<optimizer> &u, float scale, int32_t column,
                                     numbers<width> *out) {
  load_columns(u, column, &out->average);
  if constexpr (optimizer::has_average) out->average = bd_cuda_averages(scale, out->average);
}

// Of a part of a tile of draws; *spot goes on to the next one. `plain`: all of a thread's parts are
// of the row whose scale is given, and its columns have been read.
template <bool plain, typename optimizer, int width>
static __device__ void find_averages(const part<optimizer> &u, float inverse, float scale,
                                     const bd_cuda_floats<width> &columns, bd_cuda_spot *spot,
                                     numbers<width> *out) {
  if constexpr (optimizer::has_average) {
    if constexpr (plain) {
      out->average = bd_cuda_averages(scale, columns);
      spot->column += BD_RT_DRAW_LANES;
    } else {
      const bd_cuda_spot here = bd_cuda_clamp(u.f, *spot);
      load_averages(u, row_scale_of(u, inverse, here.row), here.column, out);
      bd_cuda_go_on(u.f, {0, BD_RT_DRAW_LANES}, spot);
    }
  }
}

template <typename optimizer, int width>
static __device__ void load_moments(const part<optimizer> &u, int64_t i, numbers<width> *out) {
  if constexpr (optimizer::has_first) out->first = bd_cuda_load<width>(u.first + i);
  if constexpr (optimizer::has_second) out->second = bd_cuda_load<width>(u.second + i);
}

// All but the weight of the elements from `i` on, which are at `spot`.
template <typename of_gradient, typename optimizer, int width>
static __device__ void load(const part<optimizer> &u, const bd_cuda_spot &spot, float inverse,
                            int64_t i, numbers<width> *out) {
  out->gradient = bd_cuda_load_floats<width>((const of_gradient *)u.gradient + i);
  load_moments(u, i, out);
  load_averages(u, row_scale_of(u, inverse, spot.row), spot.column, out);
}

template <typename optimizer, int width>
static __device__ void store_moments(const part<optimizer> &u, int64_t i, const numbers<width> &n) {
  if constexpr (optimizer::has_first) bd_cuda_store(u.first + i, n.first);
  if constexpr (optimizer::has_second) bd_cuda_store(u.second + i, n.second);
}

template <int width>
static __device__ void store_halves(int dtype, const bd_cuda_floats<width> &v, uint16_t *to) {
  bd_cuda_halves<width> halves = {};
  if (dtype == BD_RT_F16)
    for (int e = 0; e < width; e++)
      halves.put(e, bd_rt_to_f16(v.at[e]));
  else
    for (int e = 0; e < width; e++)
      halves.put(e, bd_rt_to_bf16(v.at[e]));
  bd_cuda_store(to, halves);
}

// Past the end a thread reads the last pack again, so that no load waits for a question.
template <typename optimizer, int width>
static __device__ void update_chunk(const part<optimizer> &p, int64_t chunk) {
  constexpr int step = BD_CUDA_THREADS * width;
  const float inverse = inverse_of(p);
  const int64_t begin = (chunk - p.chunk) * BD_CUDA_CHUNK + threadIdx.x * width;
  for (int64_t start = begin; start < begin + BD_CUDA_CHUNK; start += AHEAD * step) {
    numbers<width> n[AHEAD];
    int64_t at[AHEAD];
    for (int k = 0; k < AHEAD; k++) {
      const int64_t i = bd_cuda_least(start + k * step, p.count - width);
      at[k] = bd_cuda_place_of(p.rows, i);
      n[k].weight = bd_cuda_load<width>(p.weight + (p.halves ? i : at[k]));
      load<float>(p, first_spot(p, i), inverse, i, &n[k]);
    }
    const settings u = settings_of(p);
    for (int k = 0; k < AHEAD; k++) {
      const int64_t i = start + k * step;
      if (i >= p.count) return;
      for (int e = 0; e < width; e++)
        n[k].weight.at[e] = optimizer::next(u, n[k], e, n[k].weight.at[e]);
      store_moments(p, i, n[k]);
      bd_cuda_store(p.weight + (p.halves ? i : at[k]), n[k].weight);
      if (p.halves) store_halves(p.half_dtype, n[k].weight, p.halves + at[k]);
    }
  }
}

template <typename optimizer> BD_BODY update(const part_list<part<optimizer>> &list) {
  for (int64_t chunk = blockIdx.x; chunk < list.chunks; chunk += gridDim.x) {
    typename optimizer::template held<part<optimizer>> p = list.of[part_of(list, chunk)];
    if (p.packs)
      update_chunk<optimizer, BD_CUDA_PACK>(p, chunk);
    else
      update_chunk<optimizer, 1>(p, chunk);
  }
}

// Whether all elements of a tile that a thread has are there, lie one after another and are of one
// row of averages.
template <typename optimizer>
static __device__ bool is_plain(const rounded<optimizer> &rule, const bd_cuda_spot &spot,
                                int64_t i) {
  constexpr int reach = BD_RT_DRAW_TILE - BD_RT_DRAW_LANES + BD_CUDA_PACK;
  if constexpr (optimizer::has_average)
    if (spot.column + reach > rule.f.rows.row) return false;
  return i >= 0 && i + reach <= rule.count && !rule.rows.row;
}

// What is the same for a rule's tiles.
template <typename optimizer> struct held_rule {
  const rounded<optimizer> &rule;
  settings u;
  float inverse;
};

// The four draws of a thread's elements of a tile, of which the first is element `i`.
template <typename optimizer>
static __device__ void draw(const rounded<optimizer> &rule, int64_t i, bd_philox_words *draws) {
  const int64_t number = bd_rt_draw_number(bd_rt_drawn_element(&rule.draws, i));
  const uint64_t step = rule.pace->step;
  for (int e = 0; e < BD_CUDA_PACK; e++)
    draws[e] = bd_rt_draw(&rule.draws, step, number + e);
}

// A thread's elements of a tile, from `i` on, which is at `spot`: four neighbours of each of its 8
// parts. The four draws serve them all, and are made while memory is at work on what is read.
template <bool plain, typename of_gradient, typename optimizer>
static __device__ void round_tile(const held_rule<optimizer> &h, int64_t i, bd_cuda_spot spot) {
  constexpr int width = BD_CUDA_PACK, parts = BD_RT_DRAW_TILE / BD_RT_DRAW_LANES;
  constexpr bool narrow = sizeof(of_gradient) < sizeof(float);
  constexpr int ahead = optimizer::has_first ? 2 : plain && narrow ? parts : 4;
  const rounded<optimizer> &rule = h.rule;
  bd_philox_words draws[width];
  bd_cuda_floats<width> columns = {};
  float scale = 1;
  if (plain) load_columns(rule, spot.column, &columns);
  BD_ROLLED
  for (int part = 0; part < parts; part += ahead, i += ahead * BD_RT_DRAW_LANES) {
    decltype(bd_cuda_load<width>((const of_gradient *)NULL)) gradients[ahead];
    bd_cuda_halves<width> halves[ahead];
    numbers<width> n[ahead];
    for (int k = 0; k < ahead; k++) {
      const int64_t asked = i + k * BD_RT_DRAW_LANES;
      const int64_t near = plain ? asked : bd_cuda_least(asked < 0 ? 0 : asked, rule.count - width);
      const int64_t at = plain ? asked : bd_cuda_place_of(rule.rows, near);
      halves[k] = bd_cuda_load<width, true>(rule.halves + at);
      gradients[k] = bd_cuda_load<width, true>((const of_gradient *)rule.gradient + near);
      load_moments<optimizer>(rule, near, &n[k]);
    }
    if (part == 0) {
      draw<optimizer>(rule, i, draws);
      if (plain) scale = row_scale_of<optimizer>(rule, h.inverse, spot.row);
    }
    for (int k = 0; k < ahead; k++) {
      const int64_t asked = i + k * BD_RT_DRAW_LANES;
      const bd_cuda_floats<width> weight = bd_cuda_floats_of(halves[k]);
      bd_cuda_halves<width> rounded = {};
      n[k].gradient = bd_cuda_floats_of(gradients[k]);
      find_averages<plain>(rule, h.inverse, scale, columns, &spot, &n[k]);
      if (plain && part + k + 1 < parts) load_columns(rule, spot.column, &columns);
      for (int e = 0; e < width; e++)
        rounded.put_upper(e, bd_rt_round_upper(optimizer::next(h.u, n[k], e, weight.at[e]),
                                               draws[e].word[k / 2] >> k % 2 * 16));
      if (!plain && (asked < 0 || asked >= rule.count)) continue;
      store_moments<optimizer>(rule, asked, n[k]);
      const int64_t at = plain ? asked : bd_cuda_place_of(rule.rows, asked);
      bd_cuda_store(rule.halves + at, rounded);
    }
    for (int e = 0; e < width; e++)
      for (int word = 0; word + ahead / 2 < 4; word++)
        draws[e].word[word] = draws[e].word[word + ahead / 2];
  }
}

// Without masters. The elements that are a tile's of draws follow one another. A thread takes
// BD_CUDA_ROUND_TILES tiles that lie one below another, so that what is read of columns is near
// from the second on.
template <typename optimizer, typename of_gradient>
BD_BODY round_tiles(const part_list<rounded<optimizer>> &list) {
  constexpr int width = BD_CUDA_PACK, of_tile = BD_RT_DRAW_LANES / width;
  int number = part_of(list, blockIdx.x);
  for (int64_t chunk = blockIdx.x; chunk < list.chunks; number++) {
    const rounded<optimizer> &rule = list.of[number];
    const int64_t end = number + 1 < list.parts ? list.of[number + 1].chunk : list.chunks;
    const held_rule<optimizer> h = {rule, settings_of<optimizer>(rule),
                                    inverse_of<optimizer>(rule)};
    for (; chunk < end; chunk += gridDim.x) {
      const int64_t item = (chunk - rule.chunk) * BD_CUDA_ROUND_THREADS + threadIdx.x;
      const int64_t column = item / of_tile, group = column / rule.across;
      const int64_t tile = column + group * (BD_CUDA_ROUND_TILES - 1) * rule.across;
      int64_t i = tile * BD_RT_DRAW_TILE + item % of_tile * width - rule.before;
      BD_ROLLED
      for (int k = 0; k < BD_CUDA_ROUND_TILES && i < rule.count;
           k++, i += rule.across * BD_RT_DRAW_TILE) {
        const bd_cuda_spot spot = first_spot<optimizer>(rule, i);
        if (is_plain(rule, spot, i))
          round_tile<true, of_gradient>(h, i, spot);
        else
          round_tile<false, of_gradient>(h, i, spot);
      }
    }
  }
}

// The same where elements lie otherwise. A thread takes elements of 256 that are BD_RT_DRAW_LANES
// apart: one draw serves them all, or two where these do not begin with a tile.
template <typename optimizer, typename of_gradient>
BD_BODY round_any(const part_list<rounded<optimizer>> &list) {
  for (int64_t chunk = blockIdx.x; chunk < list.chunks; chunk += gridDim.x) {
    const rounded<optimizer> &rule = list.of[part_of(list, chunk)];
    const int64_t item = (chunk - rule.chunk) * BD_CUDA_ROUND_THREADS + threadIdx.x;
    const settings u = settings_of<optimizer>(rule);
    const float inverse = inverse_of<optimizer>(rule);
    const int64_t start = item / BD_RT_DRAW_LANES * BD_RT_DRAW_TILE + item % BD_RT_DRAW_LANES;
    int64_t held = -1;
    uint64_t low = 0, high = 0;
    for (int k = 0; k < BD_RT_DRAW_TILE / BD_RT_DRAW_LANES; k++) {
      const int64_t i = start + k * BD_RT_DRAW_LANES;
      if (i >= rule.count) break;
      const int64_t at = bd_cuda_place_of(rule.rows, i);
      const int64_t element = bd_rt_drawn_element(&rule.draws, i);
      const int64_t number = bd_rt_draw_number(element);
      const int part = bd_rt_draw_part(element);
      if (number != held) {
        const bd_philox_words draw = bd_rt_draw(&rule.draws, rule.pace->step, number);
        low = draw.word[0] | (uint64_t)draw.word[1] << 32;
        high = draw.word[2] | (uint64_t)draw.word[3] << 32;
        held = number;
      }
      numbers<1> n;
      load<of_gradient, optimizer>(rule, first_spot<optimizer>(rule, i), inverse, i, &n);
      const float next = optimizer::next(u, n, 0, bd_rt_from_bf16(rule.halves[at]));
      store_moments<optimizer>(rule, i, n);
      rule.halves[at] =
          bd_rt_round_bf16(next, (uint32_t)((part < 4 ? low : high) >> part % 4 * 16));
    }
  }
}

#define ROUND(optimizer, name, of_gradient)                                                        \
  BD_ENTRY BD_ROOM_OF(BD_CUDA_ROUND_THREADS, optimizer::has_second ? 4 : 5)                        \
      bd_k_round_tiles_##optimizer##_##name(bd_cuda_rule_list list) {                              \
    round_tiles<optimizer, of_gradient>(list_of<rounded<optimizer>>(list));                        \
  }                                                                                                \
  BD_ENTRY bd_k_round_any_##optimizer##_##name(bd_cuda_rule_list list) {                           \
    round_any<optimizer, of_gradient>(list_of<rounded<optimizer>>(list));                          \
  }
#define ENTRIES(optimizer)                                                                         \
  BD_ENTRY BD_ROOM(4) bd_k_update_##optimizer(bd_cuda_rule_list list) {                            \
    update<optimizer>(list_of<part<optimizer>>(list));                                             \
  }                                                                                                \
  ROUND(optimizer, f32, float)                                                                     \
  ROUND(optimizer, bf16, uint16_t)
ENTRIES(adam)
ENTRIES(momentum)
ENTRIES(adafactor)
ENTRIES(sgd)
