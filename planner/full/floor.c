#include "planner/full/floor.h"
#include "ir/base/number.h"
#include "planner/bound/climb.h"
#include <math.h>
#include <string.h>

enum { STATE_LIMIT = 1 << 16, CELL_LIMIT = 1 << 20 };

typedef struct flooring {
  const bd_floor *floor;
  int states;              // combinations of devices that are taken; 0: they are not told apart
  int *unit;               // per group: devices that are taken together
  int *span;               // so many units
  int *stride;             // of the group's digit
  double *value;           // per run: of a layer
  double *rate;            // per size: r / m
  double *fading;          // per size: k r / m, at most 1
  int most_stages, stages; // that h counts; that it needs
  double *most;            // [stages][state]: h of as many stages or fewer
} flooring;

static void open_states(bd_ctx *ctx, flooring *s) {
  const bd_floor *p = s->floor;
  int64_t states = 1, slots = 0;
  s->unit = BD_NEW_ARRAY(ctx->arena, int, p->group_count);
  s->span = BD_NEW_ARRAY(ctx->arena, int, p->group_count);
  s->stride = BD_NEW_ARRAY(ctx->arena, int, p->group_count);
  for (int i = 0; i < p->size_count; i++)
    s->unit[p->sizes[i].group] =
        (int)bd_common_divisor(p->sizes[i].devices, s->unit[p->sizes[i].group]);
  for (int g = 0; g < p->group_count && states <= STATE_LIMIT; g++) {
    s->span[g] = s->unit[g] ? p->group_devices[g] / s->unit[g] : 0;
    s->stride[g] = (int)states;
    states *= s->span[g] + 1;
    slots += s->span[g];
  }
  s->most_stages = p->most_stages < slots ? p->most_stages : (int)slots;
  if (states > STATE_LIMIT || states * (s->most_stages + 1) > CELL_LIMIT) return;
  s->states = (int)states;
  s->most =
      bd_arena_array(ctx->arena, (size_t)states * (size_t)(s->most_stages + 1), sizeof *s->most);
}

static double seconds_of(const bd_floor *p, int run, int size) {
  return p->seconds[run * p->size_count + size];
}

// What a stage of each size can take up at most under these values.
static void rate_sizes(flooring *s) {
  const bd_floor *p = s->floor;
  for (int i = 0; i < p->size_count; i++) {
    double rate = 0, passing = INFINITY;
    for (int r = 0; r < p->run_count; r++) {
      if (!isfinite(seconds_of(p, r, i))) continue;
      rate = fmax(rate, s->value[r] / seconds_of(p, r, i));
      passing = fmin(passing, p->passing[r * p->size_count + i] / s->value[r]);
    }
    double handing = p->micro_batches * p->handing[i] / p->limit;
    s->rate[i] = rate * fmax(0, 1 - handing) / p->micro_batches;
    s->fading[i] = rate > 0 ? fmin(1, passing * s->rate[i]) : 0;
  }
}

// Where states are too many, or it is to be rough, passing counts for nothing, and each group takes
// its best size.
static double most_without_passing(const flooring *s) {
  const bd_floor *p = s->floor;
  double sum = 0;
  for (int g = 0; g < p->group_count; g++) {
    double best = 0;
    for (int i = 0; i < p->size_count; i++)
      if (p->sizes[i].group == g) best = fmax(best, s->rate[i] / p->sizes[i].devices);
    sum += best * p->group_devices[g];
  }
  return sum;
}

// How far apart two states are of which one has taken one stage of a size more.
static int step_of(const flooring *s, int size) {
  const bd_floor_size *of = &s->floor->sizes[size];
  return of->devices / s->unit[of->group] * s->stride[of->group];
}

// What one more stage of a size, before the others, takes up with them at most.
static double most_with(const flooring *s, int size, double others) {
  return s->rate[size] + (1 - s->fading[size]) * others;
}

// Raises what the devices of each state take up to what they do with a first stage of a size. The
// states that have the devices for it are the ends of periods of the group's digit.
static void add_size(const flooring *s, int size, const double *then, double *now) {
  int group = s->floor->sizes[size].group, step = step_of(s, size);
  int period = s->stride[group] * (s->span[group] + 1);
  for (int begin = 0; begin < s->states; begin += period)
    for (int n = begin + step; n < begin + period; n++) {
      double most = most_with(s, size, then[n - step]);
      now[n] = most > now[n] ? most : now[n];
    }
}

// Stages are added one by one until there are as many as may be, or more take up no more.
static double most_of_all(flooring *s) {
  const bd_floor *p = s->floor;
  if (!s->states) return most_without_passing(s);
  size_t width = (size_t)s->states;
  for (s->stages = 1; s->stages <= s->most_stages; s->stages++) {
    double *now = &s->most[(size_t)s->stages * width], *then = now - width;
    memset(now, 0, width * sizeof *now);
    for (int i = 0; i < p->size_count; i++)
      add_size(s, i, then, now);
    bool more = false;
    for (size_t n = 0; n < width && !more; n++)
      more = now[n] > then[n];
    if (!more) break;
  }
  s->stages = s->stages > s->most_stages ? s->most_stages : s->stages;
  return s->most[(size_t)s->stages * width + width - 1];
}

// The first of the sizes with which the devices of state `n` take up most in `stages` stages; -1:
// they take up nothing.
static int best_size(const flooring *s, int stages, int n) {
  const double *then = &s->most[(size_t)(stages - 1) * (size_t)s->states];
  double best = 0;
  int size = -1;
  for (int i = 0; i < s->floor->size_count; i++) {
    int group = s->floor->sizes[i].group, step = step_of(s, i);
    if (n % (s->stride[group] * (s->span[group] + 1)) < step) continue;
    double most = most_with(s, i, then[n - step]);
    if (most <= best) continue;
    best = most;
    size = i;
  }
  return size;
}

static void mark_used(const flooring *s, bool *used) {
  const bd_floor *p = s->floor;
  for (int i = 0; i < p->size_count; i++)
    used[i] = !s->states && s->rate[i] > 0;
  int n = s->states - 1;
  for (int left = s->stages; left > 0 && n >= 0; left--) {
    int i = best_size(s, left, n);
    if (i < 0) break;
    used[i] = true;
    n -= step_of(s, i);
  }
}

static double bound_of(void *user) {
  flooring *s = user;
  const bd_floor *p = s->floor;
  double sum = 0;
  for (int r = 0; r < p->run_count; r++)
    sum += p->calls[r] * s->value[r];
  rate_sizes(s);
  double most = most_of_all(s);
  return most > 0 ? fmin(p->limit, sum / most) : p->limit;
}

// Values under which a size takes up as much of each run as of the whole model, or less: what few
// layers do well on a size must not speak for all.
static void begin(flooring *s) {
  const bd_floor *p = s->floor;
  for (int r = 0; r < p->run_count; r++) {
    double least = INFINITY;
    for (int i = 0; i < p->size_count; i++) {
      double all = 0;
      for (int other = 0; other < p->run_count; other++)
        all += p->calls[other] * seconds_of(p, other, i);
      if (isfinite(all)) least = fmin(least, seconds_of(p, r, i) / all);
    }
    for (int i = 0; i < p->size_count && !isfinite(least); i++)
      least = fmin(least, seconds_of(p, r, i));
    s->value[r] = least;
  }
}

static double climb(flooring *s) {
  static const double factors[] = {0.8, 0.95, 1.05, 1.25};
  const bd_climb climb = {.value = s->value,
                          .count = s->floor->run_count,
                          .factors = factors,
                          .factor_count = sizeof factors / sizeof *factors,
                          .rounds = s->floor->rounds,
                          .bound_of = bound_of,
                          .user = s};
  return bd_climb_run(&climb);
}

static double run(bd_ctx *ctx, const bd_floor *floor, bool *out_used) {
  flooring s = {.floor = floor};
  s.value = BD_NEW_ARRAY(ctx->arena, double, floor->run_count);
  s.rate = BD_NEW_ARRAY(ctx->arena, double, floor->size_count);
  s.fading = BD_NEW_ARRAY(ctx->arena, double, floor->size_count);
  if (!floor->roughly) open_states(ctx, &s);
  begin(&s);
  for (int r = 0; r < floor->run_count; r++)
    if (!isfinite(s.value[r])) return INFINITY;
  double bound = climb(&s);
  bound_of(&s);
  mark_used(&s, out_used);
  return bound;
}

double bd_floor_seconds(bd_ctx *ctx, const bd_floor *floor, bool *out_used) {
  bd_owned held;
  bd_arena *kept = ctx->arena, *arena = bd_ctx_open_arena(ctx, &held);
  ctx->arena = arena;
  memset(out_used, 0, sizeof *out_used * (size_t)floor->size_count);
  double bound = run(ctx, floor, out_used);
  ctx->arena = kept;
  bd_ctx_close_arena(ctx, &held);
  return bound;
}
