// The end of a step: gradients are added, synchronized, measured and clipped, weights updated.
// Every sum has one order: uses of a weight by stage and place, ranks ascending, tensors by their
// number in the model.
#include "runtime/cpu/rt.h"

#include "runtime/cpu/tie.h"
#include "runtime/layout.h"

#include <math.h>
#include <string.h>

enum { GRAIN = 1 << 16 };

// The flat part of a weight that this rank updates.
typedef struct own_part {
  const bd_rt_weight *weight;
  const bd_rt_group *group; // ranks that share the update (ZeRO-1)
  int zero;                 // its mask of axes
  int64_t elements, start, count;
  float *gradient; // the first use's accumulator: all elements
} own_part;

static own_part part_of(const bd_rt *rt, const bd_rt_weight *weight) {
  own_part part = {.weight = weight};
  const bd_rt_local local =
      bd_rt_local_of(&weight->layout, rt->program->axes, rt->program->mesh, rt->coord);
  for (int a = 0; a < rt->program->axes; a++)
    if (rt->program->zero_axes >> a & 1 && weight->layout.at[a] < 0) part.zero |= 1 << a;
  part.group = &rt->group[part.zero];
  part.elements = local.elements;
  bd_rt_part(part.elements, part.group->size, part.group->rank, &part.start, &part.count);
  part.gradient = (float *)(void *)(rt->arena + weight->gradient_offsets[0]);
  return part;
}

typedef struct clearing {
  float *gradient;
  int64_t done; // cleared or valid up to here
} clearing;

static void clear_before(void *args, int64_t flat, int64_t at, int64_t count) {
  (void)flat;
  clearing *const c = args;
  memset(c->gradient + c->done, 0, (size_t)(at - c->done) * sizeof(float));
  c->done = at + count;
}

// Padding is never read by kernels; here it must not disturb sums.
static void clear_padding(const bd_rt *rt, const bd_rt_weight *weight, float *gradient) {
  const bd_rt_local local =
      bd_rt_local_of(&weight->layout, rt->program->axes, rt->program->mesh, rt->coord);
  clearing c = {gradient, 0};
  int padded = 0;
  for (int d = 0; d < local.rank; d++)
    padded |= local.count[d] != local.extent[d];
  if (!padded) return;
  bd_rt_local_rows(&local, clear_before, &c);
  memset(gradient + c.done, 0, (size_t)(local.elements - c.done) * sizeof(float));
}

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

static void add_use(bd_rt *rt, const own_part *part, int use) {
  addition a = {.sum = part->gradient,
                .more = (const float *)(const void *)(rt->arena + part->weight->gradient_offsets[use]),
                .count = part->elements};
  bd_rt_parallel(rt, add_grain, &a, (a.count + GRAIN - 1) / GRAIN);
}

// Uses become whole sums in the first accumulator; of a weight with a part of its own, only that
// part.
static void sum_uses(bd_rt *rt, const bd_rt_weight *weight) {
  const own_part part = part_of(rt, weight);
  const int axes = (1 << rt->program->axes) - 1, tied = bd_rt_tied(rt, weight);
  for (int use = 0; use < weight->gradient_count; use++) {
    float *const gradient = (float *)(void *)(rt->arena + weight->gradient_offsets[use]);
    const int partial = (int)weight->gradient_partial[use] & axes;
    clear_padding(rt, weight, gradient);
    if (partial && partial == part.zero && !tied)
      bd_rt_reduce_part(rt, part.group, part.elements, gradient);
    else
      bd_rt_reduce(rt, &rt->group[partial], BD_RT_SUM, part.elements, gradient, gradient);
    if (use > 0 && !tied) add_use(rt, &part, use);
  }
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

static double sum_squares(bd_rt *rt, const float *data, int64_t count) {
  square s = {data, count, (double *)(void *)rt->scratch};
  const int64_t grains = (count + GRAIN - 1) / GRAIN;
  bd_rt_parallel(rt, square_grain, &s, grains);
  double sum = 0;
  for (int64_t i = 0; i < grains; i++)
    sum += s.sums[i];
  return sum;
}

// Of equal copies, the one on the lowest stage and at coordinates 0 counts.
static int counts(const bd_rt *rt, const own_part *part) {
  for (int a = 0; a < rt->program->axes; a++)
    if (part->weight->layout.at[a] < 0 && !(part->zero >> a & 1) && rt->coord[a] > 0) return 0;
  return bd_rt_first_holder(rt, part->weight->global_index) == rt->stage_index;
}

static double global_norm(bd_rt *rt) {
  const int tensors = rt->program->tensors;
  double *const own = rt->norms + (size_t)rt->ranks * (size_t)tensors;
  memset(own, 0, (size_t)tensors * sizeof *own);
  for (int i = 0; i < rt->stage->weight_count; i++) {
    if (!rt->stage->weights[i].gradient_count) continue;
    const own_part part = part_of(rt, &rt->stage->weights[i]);
    if (part.count > 0 && counts(rt, &part))
      own[part.weight->global_index] = sum_squares(rt, part.gradient + part.start, part.count);
  }
  MPI_Allgather(own, tensors, MPI_DOUBLE, rt->norms, tensors, MPI_DOUBLE, MPI_COMM_WORLD);
  double total = 0;
  for (int t = 0; t < tensors; t++) {
    double sum = 0;
    for (int r = 0; r < rt->ranks; r++)
      sum += rt->norms[(size_t)r * (size_t)tensors + (size_t)t];
    total += sum;
  }
  return sqrt(total);
}

typedef struct rule {
  float *weight, *gradient, *first, *second;
  int64_t count;
  float clip, rate, shrink, decay, beta1, beta2, eps, correction2;
} rule;

// AdamW (Loshchilov and Hutter 2019) with PyTorch's order of operations.
static void adamw_grain(void *args, int64_t chunk) {
  const rule u = *(const rule *)args;
  const int64_t end = (chunk + 1) * GRAIN < u.count ? (chunk + 1) * GRAIN : u.count;
  float *restrict const w = u.weight, *restrict const m = u.first, *restrict const v = u.second;
  const float *restrict const gradient = u.gradient;
  for (int64_t i = chunk * GRAIN; i < end; i++) {
    const float g = gradient[i] * u.clip;
    m[i] = u.beta1 * m[i] + (1 - u.beta1) * g;
    v[i] = u.beta2 * v[i] + (1 - u.beta2) * g * g;
    w[i] = w[i] * u.shrink - u.rate * (m[i] / (sqrtf(v[i]) / u.correction2 + u.eps));
  }
}

static void sgd_grain(void *args, int64_t chunk) {
  const rule u = *(const rule *)args;
  const int64_t end = (chunk + 1) * GRAIN < u.count ? (chunk + 1) * GRAIN : u.count;
  float *restrict const w = u.weight;
  const float *restrict const gradient = u.gradient;
  for (int64_t i = chunk * GRAIN; i < end; i++)
    w[i] -= u.rate * (gradient[i] * u.clip + u.decay * w[i]);
}

static void update_weight(bd_rt *rt, const bd_rt_weight *weight, float clip) {
  const own_part part = part_of(rt, weight);
  const bd_rt_options *const o = &rt->options;
  const double rate = bd_rt_learning_rate(o, (int64_t)rt->step), steps = (double)rt->step + 1;
  const double decay = weight->decay ? o->weight_decay : 0;
  float *const whole = (float *)(void *)(rt->arena + weight->weight_offset);
  rule u = {.weight = whole + part.start,
            .gradient = part.gradient + part.start,
            .count = part.count,
            .clip = clip,
            .rate = (float)rate,
            .decay = (float)decay};
  if (rt->program->optimizer == 1) {
    u.first = (float *)(void *)(rt->arena + weight->state_offset);
    u.second = u.first + weight->state_elements;
    u.rate = (float)(rate / (1 - pow(o->beta1, steps)));
    u.correction2 = (float)sqrt(1 - pow(o->beta2, steps));
    u.shrink = (float)(1 - rate * decay);
    u.beta1 = (float)o->beta1;
    u.beta2 = (float)o->beta2;
    u.eps = (float)o->eps;
  }
  bd_rt_parallel(rt, rt->program->optimizer == 1 ? adamw_grain : sgd_grain, &u,
                 (part.count + GRAIN - 1) / GRAIN);
  bd_rt_gather_parts(rt, part.group, part.elements, whole);
}

double bd_rt_update(bd_rt *rt) {
  for (int i = 0; i < rt->stage->weight_count; i++)
    if (rt->stage->weights[i].gradient_count) sum_uses(rt, &rt->stage->weights[i]);
  bd_rt_tie_gradients(rt);
  const double norm = global_norm(rt);
  if (!isfinite(norm)) return norm;
  const double bound = rt->options.clip;
  const float clip = bound > 0 && norm + 1e-6 > bound ? (float)(bound / (norm + 1e-6)) : 1;
  for (int i = 0; i < rt->stage->weight_count; i++)
    if (rt->stage->weights[i].gradient_count) update_weight(rt, &rt->stage->weights[i], clip);
  return norm;
}
