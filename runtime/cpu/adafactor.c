// Adafactor's sums and its update on a CPU rank. Each sum has an order of its own, whatever the
// threads.
#include "runtime/cpu/rule.h"

enum { LANES = 8, COLUMNS = 64 }; // of a row, and of a task

typedef struct lines {
  const bd_rt_rule *rule;
  bd_rt_mixing mixing;
  int64_t rows; // of a task
} lines;

static void mix(float *kept, bd_rt_mixing mixing, double sum) {
  *kept = mixing.keep * *kept + mixing.share * (float)sum;
}

// Those columns of a row that are the rule's: [*from, *to).
static void own_columns(const bd_rt_rule *rule, int64_t row, int64_t *from, int64_t *to) {
  const bd_rt_factors *const f = &rule->factors;
  const int64_t begin = f->first - row * f->columns, end = begin + rule->count;
  *from = begin < 0 ? 0 : begin;
  *to = end < f->columns ? end : f->columns;
}

static double square(float gradient, float factor) {
  const double g = (double)(gradient * factor);
  return g * g;
}

// Of elements from `first` on.
static double squares(int dtype, const void *data, int64_t first, float factor, int64_t count) {
  double lanes[LANES] = {0}, sum = 0;
  for (int64_t done = 0, n; done < count; done += n) {
    float room[BD_RT_BLOCK];
    n = bd_rt_least(count - done, BD_RT_BLOCK);
    const float *const values = bd_rt_as_floats(dtype, data, first + done, n, room);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
      for (int lane = 0; lane < LANES; lane++)
        lanes[lane] += square(values[i + lane], factor);
    for (; i < n; i++)
      sum += square(values[i], factor);
  }
  for (int lane = 0; lane < LANES; lane++)
    sum += lanes[lane];
  return sum;
}

static void add_row(const lines *l, int64_t row) {
  const bd_rt_factors *const f = &l->rule->factors;
  int64_t from, to;
  own_columns(l->rule, row, &from, &to);
  const double sum = from < to
                         ? squares(l->rule->gradient_dtype, l->rule->gradient,
                                   row * f->columns + from - f->first, l->rule->factor, to - from)
                         : 0;
  mix(&f->row[row], l->mixing, sum);
}

static void add_rows(void *args, int64_t task) {
  const lines *const l = args;
  const int64_t end = bd_rt_least((task + 1) * l->rows, l->rule->factors.rows);
  for (int64_t row = task * l->rows; row < end; row++)
    add_row(l, row);
}

static void mix_rows(bd_rt *rt, const bd_rt_rule *rule, bd_rt_mixing mixing) {
  const bd_rt_factors *const f = &rule->factors;
  lines l = {rule, mixing, f->columns < BD_RT_GRAIN ? BD_RT_GRAIN / f->columns : 1};
  bd_rt_parallel(rt, add_rows, &l, (f->rows + l.rows - 1) / l.rows);
}

static void add_columns(void *args, int64_t task) {
  const lines *const l = args;
  const bd_rt_factors *const f = &l->rule->factors;
  const float factor = l->rule->factor;
  const int64_t first = task * COLUMNS, width = bd_rt_least(COLUMNS, f->columns - first);
  double sums[COLUMNS] = {0};
  for (int64_t row = 0; row < f->rows; row++) {
    const int64_t start = row * f->columns - f->first;
    int64_t from, to;
    own_columns(l->rule, row, &from, &to);
    if (from < first) from = first;
    if (to > first + width) to = first + width;
    if (from >= to) continue;
    float room[COLUMNS];
    const float *const gradient =
        bd_rt_as_floats(l->rule->gradient_dtype, l->rule->gradient, start + from, to - from, room);
    for (int64_t c = from; c < to; c++)
      sums[c - first] += square(gradient[c - from], factor);
  }
  for (int64_t c = 0; c < width; c++)
    mix(&f->column[first + c], l->mixing, sums[c]);
}

static void mix_columns(bd_rt *rt, const bd_rt_rule *rule, bd_rt_mixing mixing) {
  lines l = {rule, mixing, 0};
  bd_rt_parallel(rt, add_columns, &l, (rule->factors.columns + COLUMNS - 1) / COLUMNS);
}

static void add_gradients(const bd_rt_rule *rule, int64_t count, double *sum) {
  *sum += squares(BD_RT_F32, rule->gradient, 0, rule->factor, count);
}

static void add_weights(const bd_rt_rule *rule, int64_t count, double *sum) {
  *sum += squares(BD_RT_F32, rule->weight, 0, 1, count);
}

// The end of the row that element `i` of the rule is in, of `count`.
static int64_t row_end(const bd_rt_factors *f, int64_t i, int64_t count) {
  return bd_rt_least(i + f->columns - (f->first + i) % f->columns, count);
}

static void add_updates(const bd_rt_rule *rule, int64_t count, double *sum) {
  const bd_rt_factors f = rule->factors;
  const float *const gradient = rule->gradient;
  double lanes[LANES] = {0};
  for (int64_t i = 0; i < count;) {
    const int64_t row = (f.first + i) / f.columns, start = (f.first + i) % f.columns - i;
    for (const int64_t end = row_end(&f, i, count); i < end; i++)
      lanes[i % LANES] += square(bd_rt_factored(&f, gradient[i] * rule->factor, row, start + i), 1);
  }
  for (int lane = 0; lane < LANES; lane++)
    *sum += lanes[lane];
}

void bd_rt_apply_factored(const bd_rt_rule *rule, int64_t count, double *sum) {
  (void)sum;
  const bd_rt_rule u = *rule;
  const bd_rt_factors f = u.factors;
  const float rate = bd_rt_factored_rate(&f, u.rate);
  float *restrict const w = u.weight;
  const float *restrict const gradient = u.gradient;
  for (int64_t i = 0; i < count;) {
    const int64_t row = (f.first + i) / f.columns, start = (f.first + i) % f.columns - i;
    for (const int64_t end = row_end(&f, i, count); i < end; i++)
      w[i] = w[i] * u.shrink - rate * bd_rt_factored(&f, gradient[i] * u.factor, row, start + i);
  }
}

typedef struct summation {
  const bd_rt_rule *rule;
  bd_rt_rule_body body;
  double *sums; // per grain
} summation;

static void sum_grain(void *args, int64_t grain) {
  const summation *const s = args;
  s->sums[grain] = 0;
  bd_rt_run_grain(s->rule, grain, s->body, &s->sums[grain]);
}

static void mix_mean(bd_rt *rt, const bd_rt_rule *rule, int which, bd_rt_mixing mixing) {
  static const bd_rt_rule_body bodies[] = {[BD_RT_MEAN_GRADIENT] = add_gradients,
                                           [BD_RT_MEAN_WEIGHT] = add_weights,
                                           [BD_RT_MEAN_UPDATE] = add_updates};
  const int64_t grains = (rule->count + BD_RT_GRAIN - 1) / BD_RT_GRAIN;
  summation s = {rule, bodies[which], (double *)(void *)rt->scratch};
  bd_rt_parallel(rt, sum_grain, &s, grains);
  double sum = 0;
  for (int64_t i = 0; i < grains; i++)
    sum += s.sums[i];
  mix(&rule->factors.mean[which], mixing, sum);
}

void bd_rt_add_factors(bd_rt *rt, const bd_rt_rule *rule, const bd_rt_mixings *mixings) {
  mix_rows(rt, rule, mixings->row);
  if (rule->factors.column) mix_columns(rt, rule, mixings->column);
  mix_mean(rt, rule, BD_RT_MEAN_GRADIENT, mixings->gradient);
  mix_mean(rt, rule, BD_RT_MEAN_WEIGHT, mixings->weight);
}

void bd_rt_add_updates(bd_rt *rt, const bd_rt_rule *rule, bd_rt_mixing mixing) {
  mix_mean(rt, rule, BD_RT_MEAN_UPDATE, mixing);
}
