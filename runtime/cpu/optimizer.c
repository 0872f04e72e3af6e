// The optimizer's arithmetic on a CPU rank, in grains of fixed size.
#include "runtime/cpu/rule.h"

#include <math.h>

typedef struct narrowing {
  int dtype;
  const float *wide;
  uint16_t *halves;
  int64_t count;
} narrowing;

typedef struct addition {
  int dtype;
  void *sum;
  const void *more;
  int64_t count;
} addition;

static void add_floats(float *restrict sum, const float *restrict more, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    sum[i] += more[i];
}

static void add_halves(int dtype, uint16_t *restrict sum, const uint16_t *restrict more,
                       int64_t count) {
  float a[BD_RT_BLOCK], b[BD_RT_BLOCK];
  for (int64_t i = 0; i < count; i += BD_RT_BLOCK) {
    const int64_t n = bd_rt_least(count - i, BD_RT_BLOCK);
    bd_rt_widen_run(dtype, sum + i, a, n);
    bd_rt_widen_run(dtype, more + i, b, n);
    add_floats(a, b, n);
    bd_rt_narrow_run(dtype, a, sum + i, n);
  }
}

static void add_grain(void *args, int64_t chunk) {
  const addition a = *(const addition *)args;
  const int64_t start = chunk * BD_RT_GRAIN, count = bd_rt_least(a.count - start, BD_RT_GRAIN);
  if (a.dtype == BD_RT_F32)
    add_floats((float *)a.sum + start, (const float *)a.more + start, count);
  else
    add_halves(a.dtype, (uint16_t *)a.sum + start, (const uint16_t *)a.more + start, count);
}

void bd_rt_add(bd_rt *rt, int dtype, void *sum, const void *more, int64_t count) {
  addition a = {dtype, sum, more, count};
  bd_rt_parallel(rt, add_grain, &a, (count + BD_RT_GRAIN - 1) / BD_RT_GRAIN);
}

typedef struct square {
  bd_rt_squares of;
  double *sums; // per grain
} square;

static void square_grain(void *args, int64_t chunk) {
  const square *const s = args;
  const int64_t start = chunk * BD_RT_GRAIN;
  const int64_t count = bd_rt_least(s->of.count - start, BD_RT_GRAIN);
  double lanes[8] = {0}, sum = 0;
  for (int64_t done = 0, n; done < count; done += n) {
    float room[BD_RT_BLOCK];
    n = bd_rt_least(count - done, BD_RT_BLOCK);
    const float *const x = bd_rt_as_floats((int)s->of.dtype, s->of.data, start + done, n, room);
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
      for (int l = 0; l < 8; l++)
        lanes[l] += (double)x[i + l] * (double)x[i + l];
    for (; i < n; i++)
      sum += (double)x[i] * (double)x[i];
  }
  for (int l = 0; l < 8; l++)
    sum += lanes[l];
  s->sums[chunk] = sum;
}

void bd_rt_square_sums(bd_rt *rt, int tensors, const bd_rt_squares *squares) {
  for (int t = 0; t < tensors; t++) {
    square s = {squares[t], (double *)(void *)rt->scratch};
    const int64_t grains = (s.of.count + BD_RT_GRAIN - 1) / BD_RT_GRAIN;
    bd_rt_parallel(rt, square_grain, &s, grains);
    double sum = 0;
    for (int64_t i = 0; i < grains; i++)
      sum += s.sums[i];
    *squares[t].out = sum;
  }
}

static void narrow_grain(void *args, int64_t chunk) {
  const narrowing *const n = args;
  const int64_t start = chunk * BD_RT_GRAIN;
  bd_rt_narrow_run(n->dtype, n->wide + start, n->halves + start,
                   bd_rt_least(n->count - start, BD_RT_GRAIN));
}

void bd_rt_narrow(bd_rt *rt, int dtype, const float *wide, uint16_t *halves, int64_t count) {
  narrowing n = {dtype, wide, halves, count};
  bd_rt_parallel(rt, narrow_grain, &n, (count + BD_RT_GRAIN - 1) / BD_RT_GRAIN);
}

// Elements that lie one after another everywhere. AdamW (Loshchilov and Hutter 2019) and Adam with
// PyTorch's order of operations.
static void adam(const bd_rt_rule *rule, int64_t count, double *sum) {
  (void)sum;
  const bd_rt_rule u = *rule;
  float *restrict const w = u.weight, *restrict const m = u.first, *restrict const v = u.second;
  const float *restrict const gradient = u.gradient;
  for (int64_t i = 0; i < count; i++) {
    const float g = gradient[i] * u.factor + u.decay * w[i];
    m[i] = u.beta1 * m[i] + (1 - u.beta1) * g;
    v[i] = u.beta2 * v[i] + (1 - u.beta2) * g * g;
    w[i] = w[i] * u.shrink - u.rate * (m[i] / (sqrtf(v[i]) / u.correction2 + u.eps));
  }
}

static void sgd(const bd_rt_rule *rule, int64_t count, double *sum) {
  (void)sum;
  const bd_rt_rule u = *rule;
  float *restrict const w = u.weight;
  const float *restrict const gradient = u.gradient;
  for (int64_t i = 0; i < count; i++)
    w[i] -= u.rate * (gradient[i] * u.factor + u.decay * w[i]);
}

static void momentum(const bd_rt_rule *rule, int64_t count, double *sum) {
  (void)sum;
  const bd_rt_rule u = *rule;
  float *restrict const w = u.weight, *restrict const m = u.first;
  const float *restrict const gradient = u.gradient;
  for (int64_t i = 0; i < count; i++) {
    m[i] = u.beta1 * m[i] + (gradient[i] * u.factor + u.decay * w[i]);
    w[i] -= u.rate * m[i];
  }
}

static bd_rt_rule advanced(const bd_rt_rule *rule, int64_t by) {
  bd_rt_rule u = *rule;
  u.gradient = (const char *)u.gradient + by * bd_rt_element_bytes(u.gradient_dtype);
  u.factors.first += by;
  u.draws.first += by;
  if (u.first) u.first += by;
  if (u.second) u.second += by;
  return u;
}

// Without masters, block by block: elements that lie one after another everywhere.
static void run_rounded(const bd_rt_rule *rule, int64_t count, bd_rt_rule_body body, double *sum) {
  float wide[BD_RT_BLOCK], gradient[BD_RT_BLOCK];
  for (int64_t i = 0, n; i < count; i += n) {
    bd_rt_rule u = advanced(rule, i);
    uint16_t *const halves = rule->halves + i;
    n = bd_rt_least(count - i, BD_RT_BLOCK);
    bd_rt_widen_run(BD_RT_BF16, halves, wide, n);
    u.weight = wide;
    u.gradient = bd_rt_as_floats(u.gradient_dtype, u.gradient, 0, n, gradient);
    u.gradient_dtype = BD_RT_F32;
    body(&u, n, sum);
    if (!sum) bd_rt_round_run(&u.draws, wide, halves, n);
  }
}

void bd_rt_run_grain(const bd_rt_rule *rule, int64_t grain, bd_rt_rule_body body, double *sum) {
  const int64_t end = bd_rt_least((grain + 1) * BD_RT_GRAIN, rule->count);
  for (int64_t i = grain * BD_RT_GRAIN, next; i < end; i = next) {
    next = rule->row ? bd_rt_least((i / rule->row + 1) * rule->row, end) : end;
    const int64_t at = rule->row ? i / rule->row * rule->stride + i % rule->row : i;
    bd_rt_rule u = advanced(rule, i);
    if (!u.weight) {
      u.halves += at;
      run_rounded(&u, next - i, body, sum);
      continue;
    }
    u.weight += u.halves ? i : at;
    body(&u, next - i, sum);
    if (!sum && u.halves) bd_rt_narrow_run(u.half_dtype, u.weight, u.halves + at, next - i);
  }
}

typedef struct application {
  const bd_rt_rule *rule;
  bd_rt_rule_body body;
} application;

static void apply_grain(void *args, int64_t grain) {
  const application *const a = args;
  bd_rt_run_grain(a->rule, grain, a->body, NULL);
}

void bd_rt_apply(bd_rt *rt, const bd_rt_rule *rule) {
  static const bd_rt_rule_body bodies[] = {[BD_RT_SGD] = sgd,
                                           [BD_RT_ADAMW] = adam,
                                           [BD_RT_MOMENTUM] = momentum,
                                           [BD_RT_ADAM] = adam,
                                           [BD_RT_ADAFACTOR] = bd_rt_apply_factored};
  application a = {rule, bodies[rule->kind]};
  bd_rt_parallel(rt, apply_grain, &a, (rule->count + BD_RT_GRAIN - 1) / BD_RT_GRAIN);
}
