// Updates by the runtime's own kernels, of elements that lie four by four or otherwise, against the
// arithmetic that all back ends share: the same bits, but Adafactor's, whose sums and divisions are
// ordered otherwise. Its sums have the same bits under any grid.
#include "runtime/cuda/kernels.h"
#include "tests/device/must.h"
#include "tests/runtime/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FLOATS = 2500000, MANY = 1 << 17, GUARD = 8 };

typedef struct memory {
  bd_cuda_queue queue;
  float *weight, *first, *second, *gradient, *state;
  void *sums;
  uint16_t *halves, *narrow; // weights, gradients
  bd_cuda_pace *pace;
  bd_cuda_mixings *mixings;
} memory;

static void copy(const memory *m, void *to, const void *from, size_t bytes, int kind) {
  MUST(cudaMemcpyAsync(to, from, bytes, (enum cudaMemcpyKind)kind, m->queue.stream));
  settle(m->queue.stream);
}

static void *room(size_t bytes) {
  void *data;
  MUST(cudaMalloc(&data, bytes));
  return data;
}

static void set_up(memory *m) {
  MUST(cudaSetDevice(0));
  MUST(cudaStreamCreateWithPriority(&m->queue.stream, cudaStreamNonBlocking, 0));
  m->queue.code = bd_cuda_open_code();
  m->weight = room(FLOATS * sizeof(float));
  m->first = room(FLOATS * sizeof(float));
  m->second = room(FLOATS * sizeof(float));
  m->gradient = room(FLOATS * sizeof(float));
  m->state = room(FLOATS * sizeof(float));
  m->sums = room(BD_CUDA_FACTORS_BYTES);
  m->halves = room(FLOATS * sizeof(uint16_t));
  m->narrow = room(FLOATS * sizeof(uint16_t));
  m->pace = room(sizeof *m->pace);
  m->mixings = room(sizeof *m->mixings);
}

static void tear_down(memory *m) {
  void *const all[] = {m->weight, m->first,  m->second, m->gradient, m->state,
                       m->sums,   m->halves, m->narrow, m->pace,     m->mixings};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    MUST(cudaFree(all[i]));
  bd_cuda_close_code(m->queue.code);
  MUST(cudaStreamDestroy(m->queue.stream));
}

// On the host: what lies before and behind the rule's elements stays as it is.
static struct {
  float weight[FLOATS], first[FLOATS], second[FLOATS], gradient[FLOATS], state[FLOATS];
  uint16_t halves[FLOATS], narrow[FLOATS];
} before, expected, got;

// Between -1 and 1; second moments are not negative.
static void fill(float *to, int64_t count, unsigned seed, int positive) {
  uint32_t state = seed * 2654435761u + 12345;
  for (int64_t i = 0; i < count; i++) {
    state = state * 1664525u + 1013904223u;
    const float x = (float)(state >> 8) * 0x1p-23f - 1;
    to[i] = positive ? x * x * 1e-3f + 1e-9f : x;
  }
}

// A case: how the elements lie, to be tried with each optimizer.
typedef struct lie {
  const char *name;
  int64_t count, row, stride;                        // of the rule
  int shift, half_shift;                             // first elements, in the buffers
  int64_t rows, columns, first;                      // of Adafactor's matrix; columns 0: a vector
  int64_t rank, dims[2], start[2], extent[2], drawn; // of the draws
} lie;

static const lie lies[] = {
    {"packs", 4096, 0, 0, 0, 0, 64, 64, 0, 2, {64, 64}, {0, 0}, {64, 64}, 0},
    {"many packs", MANY, 0, 0, 4, 4, 512, 256, 0, 1, {MANY}, {0}, {MANY}, 0},
    {"a part", 9996, 0, 0, 8, 4, 128, 96, 1236, 1, {12288}, {0}, {12288}, 1236},
    {"odd count", 4099, 0, 0, 0, 0, 1, 4099, 0, 1, {4099}, {0}, {4099}, 0},
    {"odd start", 4096, 0, 0, 1, 0, 64, 64, 0, 1, {4096}, {0}, {4096}, 0},
    {"odd halves", 4096, 0, 0, 0, 3, 64, 64, 0, 1, {4096}, {0}, {4096}, 0},
    {"odd part", 3001, 0, 0, 0, 0, 70, 50, 123, 1, {3500}, {0}, {3500}, 123},
    {"rows", 6144, 48, 192, 0, 0, 128, 48, 0, 2, {128, 192}, {0, 48}, {128, 48}, 0},
    {"rows of tiles", 16384, 256, 1024, 0, 0, 64, 256, 0, 2, {64, 1024}, {0, 512}, {64, 256}, 0},
    {"a part of rows", 16384, 0, 0, 0, 0, 80, 256, 512, 2, {80, 1024}, {0, 768}, {80, 256}, 512},
    {"tiles below tiles", 46080, 0, 0, 0, 0, 60, 768, 0, 1, {46080}, {0}, {46080}, 0},
    {"a part of tiles", 20224, 0, 0, 0, 0, 60, 768, 1280, 1, {46080}, {0}, {46080}, 1280},
    {"parts of tiles", 20000, 0, 0, 0, 0, 60, 768, 1236, 1, {46080}, {0}, {46080}, 1236},
    {"odd rows", 1500, 15, 45, 0, 0, 100, 15, 0, 2, {100, 45}, {0, 15}, {100, 15}, 0},
    {"vector", 5000, 0, 0, 0, 0, 5000, 0, 0, 1, {5000}, {0}, {5000}, 0},
    {"part of a vector", 2500, 0, 0, 0, 0, 5000, 0, 2500, 1, {5000}, {0}, {5000}, 2500},
    {"narrow", 3000, 0, 0, 0, 0, 1000, 3, 0, 1, {3000}, {0}, {3000}, 0},
    {"short rows", 8000, 0, 0, 0, 0, 1000, 8, 0, 1, {8000}, {0}, {8000}, 0},
    {"one", 1, 0, 0, 0, 0, 1, 0, 0, 1, {1}, {0}, {1}, 0},
};

// Of a weight: in f32, with a master, without one; then also with gradients in bf16.
enum { WIDE, MASTERS_BF16, MASTERS_F16, ROUNDED, NARROW, KEPT };

static int is_rounded(int kept) {
  return kept == ROUNDED || kept == NARROW;
}

static bd_rt_rule rule_of(const lie *l, int kind, int kept) {
  bd_rt_rule u = {.kind = kind,
                  .count = l->count,
                  .row = l->row,
                  .stride = l->stride,
                  .decay = kind == BD_RT_ADAMW || kind == BD_RT_ADAFACTOR ? 0 : 0.05f,
                  .beta1 = 0.9f,
                  .beta2 = 0.95f,
                  .eps = 1e-8f,
                  .half_dtype = kept == MASTERS_F16 ? BD_RT_F16 : BD_RT_BF16,
                  .gradient_dtype = kept == NARROW ? BD_RT_BF16 : BD_RT_F32};
  u.draws = (bd_rt_draws){
      .seed = UINT64_C(0x123456789abcdef), .weight = 7, .first = l->drawn, .rank = l->rank};
  for (int d = 0; d < l->rank; d++) {
    u.draws.dims[d] = l->dims[d];
    u.draws.start[d] = l->start[d];
    u.draws.extent[d] = l->extent[d];
  }
  return u;
}

static bd_rt_factors factors_of(const lie *l, float *state) {
  bd_rt_factors f = {.rows = l->rows, .columns = l->columns ? l->columns : 1, .first = l->first};
  f.row = state;
  f.column = l->columns ? state + f.rows : NULL;
  f.mean = state + f.rows + (f.column ? f.columns : 0);
  return f;
}

static const bd_cuda_pace pace = {0.75f, 3e-3f, 0.9997f, 0.8f, 41};

static float next(const bd_rt_rule *u, int64_t i, float w) {
  const float g = bd_rt_get_element(u->gradient_dtype, u->gradient, i) * pace.factor;
  float m;
  switch (u->kind) {
  case BD_RT_ADAMW:
  case BD_RT_ADAM: {
    const float d = g + u->decay * w;
    m = u->beta1 * u->first[i] + (1 - u->beta1) * d;
    const float v = u->beta2 * u->second[i] + (1 - u->beta2) * d * d;
    u->first[i] = m, u->second[i] = v;
    return w * pace.shrink - pace.rate * (m / (sqrtf(v) / pace.correction2 + u->eps));
  }
  case BD_RT_MOMENTUM:
    m = u->beta1 * u->first[i] + (g + u->decay * w);
    u->first[i] = m;
    return w - pace.rate * m;
  case BD_RT_ADAFACTOR: {
    const int64_t at = u->factors.first + i;
    return w * pace.shrink -
           bd_rt_factored_rate(&u->factors, pace.rate) *
               bd_rt_factored(&u->factors, g, at / u->factors.columns, at % u->factors.columns);
  }
  default:
    return w - pace.rate * (g + u->decay * w);
  }
}

// Of the buffers what a case touches, and some that it must not.
static size_t used(const lie *l) {
  const int64_t extent = l->row ? (l->count + l->row - 1) / l->row * l->stride : l->count;
  return (size_t)extent + (size_t)(l->shift > l->half_shift ? l->shift : l->half_shift) + 2 * GUARD;
}

static size_t states(const lie *l) {
  return (size_t)(l->rows + l->columns + BD_RT_MEANS + GUARD);
}

static const void *gradients_of(const float *wide, const uint16_t *narrow, const lie *l, int kept) {
  if (kept == NARROW) return narrow + GUARD + l->shift;
  return wide + GUARD + l->shift;
}

static void expect(bd_rt_rule u, const lie *l, int kept) {
  const size_t floats = used(l) * sizeof(float);
  memcpy(expected.weight, before.weight, floats);
  memcpy(expected.first, before.first, floats);
  memcpy(expected.second, before.second, floats);
  memcpy(expected.halves, before.halves, floats / 2);
  memcpy(expected.state, before.state, states(l) * sizeof(float));
  float *const weight = expected.weight + GUARD + l->shift;
  uint16_t *const halves = expected.halves + GUARD + l->half_shift;
  u.first = expected.first + GUARD + l->shift, u.second = expected.second + GUARD + l->shift;
  u.gradient = gradients_of(before.gradient, before.narrow, l, kept);
  u.factors = factors_of(l, expected.state);
  for (int64_t i = 0; i < l->count; i++) {
    const int64_t at = l->row ? i / l->row * l->stride + i % l->row : i;
    if (is_rounded(kept)) {
      const int64_t element = bd_rt_drawn_element(&u.draws, i);
      const bd_philox_words draw = bd_rt_draw(&u.draws, pace.step, bd_rt_draw_number(element));
      const int part = bd_rt_draw_part(element);
      halves[at] = bd_rt_round_bf16(next(&u, i, bd_rt_from_bf16(halves[at])),
                                    draw.word[part / 2] >> part % 2 * 16);
      continue;
    }
    float *const w = &weight[kept == WIDE ? at : i];
    *w = next(&u, i, *w);
    if (kept != WIDE) halves[at] = bd_rt_to_half(u.half_dtype, *w);
  }
}

static void place(const memory *m, bd_rt_rule *u, const lie *l, int kept) {
  const size_t floats = used(l) * sizeof(float);
  copy(m, m->weight, before.weight, floats, cudaMemcpyHostToDevice);
  copy(m, m->first, before.first, floats, cudaMemcpyHostToDevice);
  copy(m, m->second, before.second, floats, cudaMemcpyHostToDevice);
  copy(m, m->gradient, before.gradient, floats, cudaMemcpyHostToDevice);
  copy(m, m->narrow, before.narrow, floats / 2, cudaMemcpyHostToDevice);
  copy(m, m->state, before.state, states(l) * sizeof(float), cudaMemcpyHostToDevice);
  copy(m, m->halves, before.halves, floats / 2, cudaMemcpyHostToDevice);
  copy(m, m->pace, &pace, sizeof pace, cudaMemcpyHostToDevice);
  u->weight = is_rounded(kept) ? NULL : m->weight + GUARD + l->shift;
  u->halves = kept == WIDE ? NULL : m->halves + GUARD + l->half_shift;
  if (u->kind == BD_RT_ADAM || u->kind == BD_RT_ADAMW || u->kind == BD_RT_MOMENTUM)
    u->first = m->first + GUARD + l->shift;
  if (u->kind == BD_RT_ADAM || u->kind == BD_RT_ADAMW) u->second = m->second + GUARD + l->shift;
  u->gradient = gradients_of(m->gradient, m->narrow, l, kept);
  u->factors = factors_of(l, m->state);
}

static void run(const memory *m, bd_rt_rule u, const lie *l, int kept) {
  const size_t floats = used(l) * sizeof(float);
  place(m, &u, l, kept);
  const bd_rt_rule *const rules[] = {&u};
  const bd_cuda_pace *const paces[] = {m->pace};
  bd_cuda_apply(&m->queue, 1, rules, paces);
  copy(m, got.weight, m->weight, floats, cudaMemcpyDeviceToHost);
  copy(m, got.first, m->first, floats, cudaMemcpyDeviceToHost);
  copy(m, got.second, m->second, floats, cudaMemcpyDeviceToHost);
  copy(m, got.halves, m->halves, floats / 2, cudaMemcpyDeviceToHost);
}

// Adafactor's updates are rounded otherwise; halves are then neighbours at most, and rarely.
static int alike(int kind, size_t count) {
  size_t other = 0;
  for (size_t i = 0; i < count; i++) {
    if (kind == BD_RT_ADAFACTOR) {
      if (fabsf(got.weight[i] - expected.weight[i]) > 1e-6f * (1 + fabsf(expected.weight[i])))
        return 0;
      const int gap = (int)got.halves[i] - (int)expected.halves[i];
      if (gap < -1 || gap > 1) return 0;
      other += gap != 0;
    } else if (memcmp(&got.weight[i], &expected.weight[i], sizeof(float)) ||
               got.halves[i] != expected.halves[i]) {
      return 0;
    }
  }
  return other <= count / 1000 && !memcmp(got.first, expected.first, count * sizeof(float)) &&
         !memcmp(got.second, expected.second, count * sizeof(float));
}

static void check_apply(memory *m, const lie *l) {
  static const int kinds[] = {BD_RT_SGD, BD_RT_ADAMW, BD_RT_MOMENTUM, BD_RT_ADAM, BD_RT_ADAFACTOR};
  static const int grids[] = {1, 7, 600};
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
    for (int kept = 0; kept < KEPT; kept++) {
      char what[128];
      const bd_rt_rule u = rule_of(l, kinds[k], kept);
      expect(u, l, kept);
      m->queue.most_blocks = grids[(k + (size_t)kept) % 3];
      run(m, u, l, kept);
      snprintf(what, sizeof what, "optimizer %d of %s, kept in way %d", kinds[k], l->name, kept);
      check_true(what, alike(kinds[k], used(l)));
    }
}

// As many rules as fill two launches and begin a third, in parts that neighbour each other: what
// one rule of all does.
static void check_together(memory *m, int kind, int kept) {
  enum { PARTS = 80 };
  const lie whole = {"", 20000, 0, 0, 0, 0, 1, 20000, 0, 1, {20000}, {0}, {20000}, 0};
  const bd_rt_rule all = rule_of(&whole, kind, kept);
  bd_rt_rule u[PARTS];
  const bd_rt_rule *rules[PARTS];
  const bd_cuda_pace *paces[PARTS];
  const size_t floats = used(&whole) * sizeof(float);
  char what[64];
  expect(all, &whole, kept);
  u[0] = all;
  place(m, &u[0], &whole, kept);
  for (int i = 0; i < PARTS; i++) {
    const int64_t first = i * whole.count / PARTS + i % 3, end = (i + 1) * whole.count / PARTS;
    u[i] = u[0];
    const int64_t from = i == 0 ? 0 : first, shift = from;
    if (u[i].weight) u[i].weight += shift;
    if (u[i].first) u[i].first += shift;
    if (u[i].second) u[i].second += shift;
    if (u[i].halves) u[i].halves += shift;
    u[i].gradient = (const char *)u[i].gradient + shift * bd_rt_element_bytes(u[i].gradient_dtype);
    u[i].factors.first += shift, u[i].draws.first += shift;
    u[i].count = (i + 1 < PARTS ? end + (i + 1) % 3 : end) - from;
    rules[i] = &u[i];
    paces[i] = m->pace;
  }
  u[0].count = whole.count / PARTS + 1;
  m->queue.most_blocks = 9;
  bd_cuda_apply(&m->queue, PARTS, rules, paces);
  copy(m, got.weight, m->weight, floats, cudaMemcpyDeviceToHost);
  copy(m, got.first, m->first, floats, cudaMemcpyDeviceToHost);
  copy(m, got.second, m->second, floats, cudaMemcpyDeviceToHost);
  copy(m, got.halves, m->halves, floats / 2, cudaMemcpyDeviceToHost);
  snprintf(what, sizeof what, "rules of optimizer %d together, kept in way %d", kind, kept);
  check_true(what, alike(kind, used(&whole)));
}

static const bd_rt_mixings mixings = {
    .row = {0.6f, 1e-2f}, .column = {0.7f, 2e-2f}, .gradient = {0.5f, 1e-3f}, .weight = {0, 3e-3f}};
static const bd_rt_mixing update_mixing = {0, 1e-3f};

static float mixed(float kept, bd_rt_mixing mixing, double sum) {
  return mixing.keep * kept + mixing.share * (float)sum;
}

static float weight_at(const lie *l, int kept, int64_t i) {
  const int64_t at = l->row ? i / l->row * l->stride + i % l->row : i;
  if (is_rounded(kept)) return bd_rt_from_bf16(before.halves[GUARD + l->half_shift + at]);
  return before.weight[GUARD + l->shift + (kept == WIDE ? at : i)];
}

// Sums in f64, in the order of the elements.
static void expect_sums(const lie *l, int kept) {
  static double rows[FLOATS], columns[FLOATS];
  const void *const gradients = gradients_of(before.gradient, before.narrow, l, kept);
  const int dtype = kept == NARROW ? BD_RT_BF16 : BD_RT_F32;
  double all = 0, weights = 0, updates = 0;
  memset(rows, 0, (size_t)l->rows * sizeof *rows);
  memset(columns, 0, (size_t)l->columns * sizeof *columns);
  memcpy(expected.state, before.state, states(l) * sizeof(float));
  const bd_rt_factors f = factors_of(l, expected.state);
  for (int64_t i = 0; i < l->count; i++) {
    const double g = (double)(bd_rt_get_element(dtype, gradients, i) * pace.factor),
                 w = (double)weight_at(l, kept, i);
    rows[(l->first + i) / f.columns] += g * g;
    if (f.column) columns[(l->first + i) % f.columns] += g * g;
    all += g * g;
    weights += w * w;
  }
  for (int64_t r = 0; r < l->rows; r++)
    f.row[r] = mixed(f.row[r], mixings.row, rows[r]);
  for (int64_t c = 0; c < l->columns; c++)
    f.column[c] = mixed(f.column[c], mixings.column, columns[c]);
  f.mean[BD_RT_MEAN_GRADIENT] = mixed(f.mean[BD_RT_MEAN_GRADIENT], mixings.gradient, all);
  f.mean[BD_RT_MEAN_WEIGHT] = mixed(f.mean[BD_RT_MEAN_WEIGHT], mixings.weight, weights);
  for (int64_t i = 0; i < l->count; i++) {
    const double u =
        (double)bd_rt_factored(&f, bd_rt_get_element(dtype, gradients, i) * pace.factor,
                               (l->first + i) / f.columns, (l->first + i) % f.columns);
    updates += u * u;
  }
  f.mean[BD_RT_MEAN_UPDATE] = mixed(f.mean[BD_RT_MEAN_UPDATE], update_mixing, updates);
}

static void run_sums(memory *m, const lie *l, int kept, int blocks, float *state) {
  bd_rt_rule u = rule_of(l, BD_RT_ADAFACTOR, kept);
  place(m, &u, l, kept);
  const bd_cuda_mixings moving = {mixings.row, mixings.column, mixings.gradient, pace.factor};
  copy(m, m->mixings, &moving, sizeof moving, cudaMemcpyHostToDevice);
  m->queue.most_blocks = blocks;
  bd_cuda_factors of = {&u, m->mixings, mixings.weight};
  bd_cuda_add_factors(&m->queue, 1, &of, m->sums, BD_CUDA_FACTORS_BYTES);
  of.mixing = update_mixing;
  bd_cuda_add_updates(&m->queue, 1, &of, m->sums, BD_CUDA_FACTORS_BYTES);
  copy(m, state, m->state, states(l) * sizeof(float), cudaMemcpyDeviceToHost);
}

static const int ways[] = {WIDE, MASTERS_BF16, ROUNDED, NARROW};

static void check_sums(memory *m, const lie *l) {
  for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
    char what[128];
    int close = 1;
    expect_sums(l, ways[k]);
    run_sums(m, l, ways[k], 600, got.state);
    for (size_t i = 0; i < states(l); i++)
      close &= fabsf(got.state[i] - expected.state[i]) <= 2e-6f * fabsf(expected.state[i]);
    snprintf(what, sizeof what, "sums of %s, kept in way %d", l->name, ways[k]);
    check_true(what, close);
    run_sums(m, l, ways[k], 5, expected.state);
    check_true("another grid, the same bits",
               !memcmp(got.state, expected.state, states(l) * sizeof(float)));
  }
}

// Of more than a launch adds up.
static const lie long_lies[] = {
    {"many rows", 1200000, 0, 0, 0, 0, 1200000, 1, 0, 1, {0}, {0}, {0}, 0},
    {"many columns", 900000, 0, 0, 0, 0, 3, 300000, 0, 1, {0}, {0}, {0}, 0},
    {"more columns than lanes", 1800000, 0, 0, 0, 0, 3, 600000, 0, 1, {0}, {0}, {0}, 0},
    {"rows that lanes end in", 840000, 0, 0, 0, 0, 700, 1200, 0, 1, {0}, {0}, {0}, 0},
    {"a part of many columns", 450000, 0, 0, 0, 0, 3, 300000, 298000, 1, {0}, {0}, {0}, 0},
    {"nothing", 0, 0, 0, 0, 0, 64, 64, 4096, 1, {0}, {0}, {0}, 0},
    {"nothing of a vector", 0, 0, 0, 0, 0, 64, 0, 64, 1, {0}, {0}, {0}, 0},
};

enum {
  WAYS = sizeof ways / sizeof *ways,
  LIES = sizeof lies / sizeof *lies,
  LONG_LIES = sizeof long_lies / sizeof *long_lies,
  MATRICES = LIES * WAYS + LONG_LIES,
};

// All in some way, and those of one band in others.
static const lie *matrix(int number, int *kept) {
  const int group = LIES + LONG_LIES;
  *kept = ways[number < group ? number % WAYS : (number - group) / LIES];
  if (number < group) return number < LIES ? &lies[number] : &long_lies[number - LIES];
  return &lies[(number - group) % LIES];
}

// Each matrix of a call gets the bits that it gets alone, however many a launch has room for.
static void check_sums_together(memory *m, int64_t room_bytes) {
  static bd_rt_rule rules[MATRICES];
  static bd_cuda_factors of[MATRICES];
  static float together[FLOATS];
  float *at[MATRICES], *next = m->state;
  void *const sums = room((size_t)room_bytes);
  int kept;
  for (int i = 0; i < MATRICES; i++) {
    const lie *const l = matrix(i, &kept);
    rules[i] = rule_of(l, BD_RT_ADAFACTOR, kept);
    place(m, &rules[i], l, kept);
    at[i] = next;
    rules[i].factors = factors_of(l, next);
    of[i] = (bd_cuda_factors){&rules[i], m->mixings, mixings.weight};
    next += (states(l) + 3) / 4 * 4;
  }
  check_true("averages have room", next - m->state <= FLOATS);
  copy(m, m->weight, before.weight, sizeof before.weight, cudaMemcpyHostToDevice);
  copy(m, m->gradient, before.gradient, sizeof before.gradient, cudaMemcpyHostToDevice);
  copy(m, m->narrow, before.narrow, sizeof before.narrow, cudaMemcpyHostToDevice);
  copy(m, m->halves, before.halves, sizeof before.halves, cudaMemcpyHostToDevice);
  for (int i = 0; i < MATRICES; i++)
    copy(m, at[i], before.state, states(matrix(i, &kept)) * sizeof(float), cudaMemcpyHostToDevice);
  bd_cuda_add_factors(&m->queue, MATRICES, of, sums, room_bytes);
  for (int i = 0; i < MATRICES; i++)
    of[i].mixing = update_mixing;
  bd_cuda_add_updates(&m->queue, MATRICES, of, sums, room_bytes);
  copy(m, together, m->state, sizeof together, cudaMemcpyDeviceToHost);
  for (int i = 0; i < MATRICES; i++) {
    char what[128];
    const lie *const l = matrix(i, &kept);
    run_sums(m, l, kept, 600, got.state);
    snprintf(what, sizeof what, "sums of %s among others, kept in way %d", l->name, kept);
    check_true(what, !memcmp(got.state, together + (at[i] - m->state), states(l) * sizeof(float)));
  }
  MUST(cudaFree(sums));
}

static void set_before(void) {
  fill(before.weight, FLOATS, 1, 0);
  fill(before.first, FLOATS, 2, 0);
  fill(before.second, FLOATS, 3, 1);
  fill(before.gradient, FLOATS, 4, 0);
  fill(before.state, FLOATS, 5, 1);
  for (int64_t i = 0; i < FLOATS; i++) {
    before.halves[i] = bd_rt_to_bf16(before.weight[FLOATS - 1 - i]);
    before.narrow[i] = bd_rt_to_bf16(before.gradient[i]);
  }
}

int main(void) {
  memory m;
  set_up(&m);
  set_before();
  for (size_t i = 0; i < sizeof lies / sizeof *lies; i++)
    check_apply(&m, &lies[i]), check_sums(&m, &lies[i]);
  check_together(&m, BD_RT_ADAMW, MASTERS_BF16);
  check_together(&m, BD_RT_ADAMW, ROUNDED);
  check_together(&m, BD_RT_ADAFACTOR, WIDE);
  check_together(&m, BD_RT_ADAFACTOR, ROUNDED);
  check_together(&m, BD_RT_ADAFACTOR, NARROW);
  for (size_t i = 0; i < sizeof long_lies / sizeof *long_lies; i++)
    check_sums(&m, &long_lies[i]);
  check_sums_together(&m, BD_CUDA_FACTORS_BYTES);
  check_sums_together(&m, 3 * BD_CUDA_FACTORS_BYTES);
  tear_down(&m);
  return check_result(0);
}
