// The optimizer's arithmetic on a CPU rank, in grains of fixed size.
#include "runtime/cpu/halves.h"
#include "runtime/cpu/rt.h"

#include <math.h>

enum { GRAIN = 1 << 16 };

typedef struct narrowing {
  int dtype;
  const float *wide;
  uint16_t *halves;
  int64_t count;
} narrowing;

typedef struct addition {
  float *sum;
  const float *more;
  int64_t count;
} addition;

static void add_grain(void *args, int64_t chunk) {
  const addition a = *(const addition *)args;
  const int64_t end = (chunk + 1) * GRAIN < a.count ? (chunk + 1) * GRAIN : a.count;
  float *restrict const sum = a.sum;
  const float *restrict const more = a.more;
  for (int64_t i = chunk * GRAIN; i < end; i++)
    sum[i] += more[i];
}

void bd_rt_add(bd_rt *rt, float *sum, const float *more, int64_t count) {
  addition a = {sum, more, count};
  bd_rt_parallel(rt, add_grain, &a, (count + GRAIN - 1) / GRAIN);
}

typedef struct square {
  const float *data;
  int64_t count;
  double *sums; // per grain
} square;

static void square_grain(void *args, int64_t chunk) {
  const square *const s = args;
  const int64_t start = chunk * GRAIN;
  const int64_t count = s->count - start < GRAIN ? s->count - start : GRAIN;
  const float *const x = s->data + start;
  double lanes[8] = {0}, sum = 0;
  int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    for (int l = 0; l < 8; l++)
      lanes[l] += (double)x[i + l] * (double)x[i + l];
  for (; i < count; i++)
    sum += (double)x[i] * (double)x[i];
  for (int l = 0; l < 8; l++)
    sum += lanes[l];
  s->sums[chunk] = sum;
}

void bd_rt_square_sum(bd_rt *rt, const float *data, int64_t count, double *out) {
  square s = {data, count, (double *)(void *)rt->scratch};
  const int64_t grains = (count + GRAIN - 1) / GRAIN;
  bd_rt_parallel(rt, square_grain, &s, grains);
  double sum = 0;
  for (int64_t i = 0; i < grains; i++)
    sum += s.sums[i];
  *out = sum;
}

static void narrow_grain(void *args, int64_t chunk) {
  const narrowing *const n = args;
  const int64_t start = chunk * GRAIN;
  bd_rt_narrow_run(n->dtype, n->wide + start, n->halves + start,
                   bd_rt_least(n->count - start, GRAIN));
}

void bd_rt_narrow(bd_rt *rt, int dtype, const float *wide, uint16_t *halves, int64_t count) {
  narrowing n = {dtype, wide, halves, count};
  bd_rt_parallel(rt, narrow_grain, &n, (count + GRAIN - 1) / GRAIN);
}

// Elements that lie one after another everywhere.
static void adamw(const bd_rt_rule *rule, int64_t count) {
  const bd_rt_rule u = *rule;
  float *restrict const w = u.weight, *restrict const m = u.first, *restrict const v = u.second;
  const float *restrict const gradient = u.gradient;
  for (int64_t i = 0; i < count; i++) {
    const float g = gradient[i] * u.factor;
    m[i] = u.beta1 * m[i] + (1 - u.beta1) * g;
    v[i] = u.beta2 * v[i] + (1 - u.beta2) * g * g;
    w[i] = w[i] * u.shrink - u.rate * (m[i] / (sqrtf(v[i]) / u.correction2 + u.eps));
  }
}

static void sgd(const bd_rt_rule *rule, int64_t count) {
  const bd_rt_rule u = *rule;
  float *restrict const w = u.weight;
  const float *restrict const gradient = u.gradient;
  for (int64_t i = 0; i < count; i++)
    w[i] -= u.rate * (gradient[i] * u.factor + u.decay * w[i]);
}

static void run_grain(const bd_rt_rule *rule, int64_t chunk,
                      void (*update)(const bd_rt_rule *, int64_t)) {
  const int64_t end = (chunk + 1) * GRAIN < rule->count ? (chunk + 1) * GRAIN : rule->count;
  for (int64_t i = chunk * GRAIN, next; i < end; i = next) {
    next =
        rule->row && (i / rule->row + 1) * rule->row < end ? (i / rule->row + 1) * rule->row : end;
    const int64_t at = rule->row ? i / rule->row * rule->stride + i % rule->row : i;
    bd_rt_rule u = *rule;
    u.weight += u.halves ? i : at;
    u.gradient += i;
    if (u.first) u.first += i;
    if (u.second) u.second += i;
    update(&u, next - i);
    if (u.halves) bd_rt_narrow_run(u.half_dtype, u.weight, u.halves + at, next - i);
  }
}

// AdamW (Loshchilov and Hutter 2019) with PyTorch's order of operations.
static void adamw_grain(void *args, int64_t chunk) {
  run_grain(args, chunk, adamw);
}

static void sgd_grain(void *args, int64_t chunk) {
  run_grain(args, chunk, sgd);
}

void bd_rt_apply(bd_rt *rt, const bd_rt_rule *rule) {
  bd_rt_rule u = *rule;
  bd_rt_parallel(rt, rt->program->optimizer == 1 ? adamw_grain : sgd_grain, &u,
                 (u.count + GRAIN - 1) / GRAIN);
}
