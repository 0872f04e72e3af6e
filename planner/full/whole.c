#include "planner/full/whole.h"
#include "ir/base/number.h"
#include <math.h>
#include <string.h>

enum { LITTLE = 1000 }; // layers are little work that take no larger a part of all devices' time

// A stage that is worth a try.
typedef struct stage {
  int size, share;
  double seconds, passing; // of all micro-batches; of one
  double changing;         // of all micro-batches, by a boundary to a stage of another size
} stage;

// The best of some last stages, by shares and devices: those that a share may have.
typedef struct table {
  double *seconds;
  uint64_t *used; // sizes
} table;

typedef struct dividing {
  const bd_whole *whole;
  int shares, width; // of tables: devices in units, none included
  int unit;          // devices that are taken together
  int *step;         // per size: its units
  double *work;      // per kind: units' seconds of a layer, at least
  int *layers;       // [share][kind]
  int *low;          // per share: devices, in units, that it takes at least
  int *high;         // ... and that stages before those of the share leave
  size_t cells;      // of a table
  size_t *row;       // per share that last stages may have: the cell of its least devices
  int *stage_count;  // per depth
  double least_tie;
  stage **stages;
  // Per size of the first of the last stages, and at the end where that stage comes after one of
  // another size.
  table *before, *now;
} dividing;

static int take_layers(const dividing *d, int share) {
  int layers = 0;
  for (int k = 0; k < d->whole->kinds->count; k++)
    layers += d->layers[share * d->whole->kinds->count + k];
  return layers;
}

// What a stage of a size has a layer of a kind for, of all micro-batches.
static double layer_seconds(const dividing *d, int kind, int size) {
  return d->whole->micro_batches * d->whole->layer_seconds[kind * d->whole->size_count + size];
}

// Units' seconds of a layer of all micro-batches, at least.
static double least_work(const dividing *d, int kind) {
  double least = INFINITY;
  for (int i = 0; i < d->whole->size_count; i++)
    if (layer_seconds(d, kind, i) < d->whole->limit)
      least = fmin(least, d->step[i] * layer_seconds(d, kind, i));
  return least;
}

static double work_of(const dividing *d, int share) {
  double sum = 0;
  for (int k = 0; k < d->whole->kinds->count; k++) {
    int layers = d->layers[share * d->whole->kinds->count + k];
    if (layers) sum += layers * d->work[k];
  }
  return sum;
}

static void list_shares(bd_ctx *ctx, dividing *d) {
  const bd_kinds *kinds = d->whole->kinds;
  d->shares = (int)bd_share_count(kinds);
  d->layers = BD_NEW_ARRAY(ctx->arena, int, d->shares * kinds->count);
  for (int x = 1; x < d->shares; x++) {
    int *own = &d->layers[x * kinds->count];
    memcpy(own, own - kinds->count, sizeof *own * (size_t)kinds->count);
    bd_share_next(kinds, own);
  }
}

// Under the limit a share's work wants devices, and so does that of all others.
static void bound_devices(bd_ctx *ctx, dividing *d) {
  double limit = d->whole->limit * (1 + 1e-9);
  d->work = BD_NEW_ARRAY(ctx->arena, double, d->whole->kinds->count);
  for (int k = 0; k < d->whole->kinds->count; k++)
    d->work[k] = least_work(d, k);
  d->low = BD_NEW_ARRAY(ctx->arena, int, d->shares);
  d->high = BD_NEW_ARRAY(ctx->arena, int, d->shares);
  for (int x = 0; x < d->shares; x++) {
    d->low[x] = (int)fmin(d->width, ceil(work_of(d, x) / limit));
    d->high[x] = d->width - 1 - (int)fmin(d->width, ceil(work_of(d, d->shares - 1 - x) / limit));
  }
}

// Last stages have one of these shares, and the devices that they want.
static void open_rows(bd_ctx *ctx, dividing *d) {
  d->row = BD_NEW_ARRAY(ctx->arena, size_t, d->shares);
  for (int x = 0; x < d->shares; x++) {
    d->row[x] = d->cells;
    if (d->whole->ends[x] && d->low[x] <= d->high[x])
      d->cells += (size_t)(d->high[x] - d->low[x] + 1);
  }
}

static size_t cell_of(const dividing *d, int share, int devices) {
  return d->row[share] + (size_t)(devices - d->low[share]);
}

static stage make_stage(const dividing *d, int depth, int size, int share) {
  const bd_whole *p = d->whole;
  size_t at = ((size_t)depth * (size_t)p->size_count + (size_t)size) * (size_t)d->shares;
  int own = size * d->shares + share;
  double seconds = p->micro_batches * p->seconds[at + (size_t)share];
  if (p->tie && (share + 1 < d->shares || p->least_stages > 1))
    seconds = p->tied[share] ? seconds + p->tie[size]
                             : fmax(seconds, p->micro_batches * p->passes[own] + d->least_tie);
  return (stage){size, share, seconds, p->passing[own], p->micro_batches * p->changing[size]};
}

// Those that leave the other devices enough time for all other layers, by shares.
static void list_stages(bd_ctx *ctx, dividing *d, int depth) {
  const bd_whole *p = d->whole;
  stage *out = BD_NEW_ARRAY(ctx->arena, stage, p->size_count * d->shares);
  int count = 0;
  for (int x = 1; x < d->shares; x++)
    for (int i = 0; i < p->size_count; i++) {
      if (d->step[i] > d->high[x] || take_layers(d, x) < p->least_layers) continue;
      stage one = make_stage(d, depth, i, x);
      if (one.seconds < p->limit) out[count++] = one;
    }
  d->stages[depth] = out;
  d->stage_count[depth] = count;
}

static bool holds(const dividing *d, int share, int part) {
  int kinds = d->whole->kinds->count;
  for (int k = 0; k < kinds; k++)
    if (d->layers[part * kinds + k] > d->layers[share * kinds + k]) return false;
  return true;
}

// One more stage, before those of the rest, on every number of devices.
static void add_stage(const dividing *d, const table *rest, int share, const stage *of,
                      double own_seconds, table *out) {
  int after = share - of->share, step = d->step[of->size];
  int from = d->low[after] + step, to = d->high[after] + step;
  if (own_seconds >= d->whole->limit) return;
  if (from < d->low[share]) from = d->low[share];
  if (to > d->high[share]) to = d->high[share];
  if (from > to) return;
  size_t there = cell_of(d, after, from - step), here = cell_of(d, share, from);
  const double *then = &rest->seconds[there];
  const uint64_t *used = &rest->used[there];
  double *now = &out->seconds[here];
  uint64_t *using = &out->used[here];
  for (int n = 0; n <= to - from; n++) {
    double seconds = of->passing + then[n];
    if (seconds < own_seconds) seconds = own_seconds;
    if (seconds >= now[n]) continue;
    now[n] = seconds;
    using[n] = used[n] | (uint64_t)1 << of->size;
  }
}

// The same before stages that begin with its size, and before others; after its size, and after
// others.
static void add_stages(const dividing *d, const table *rest, int share, const stage *of) {
  int other = d->whole->size_count;
  double seconds = of->seconds;
  add_stage(d, &rest[of->size], share, of, seconds, &d->now[of->size]);
  seconds += of->changing;
  add_stage(d, &rest[other], share, of, seconds, &d->now[of->size]);
  add_stage(d, &rest[of->size], share, of, seconds, &d->now[other]);
  add_stage(d, &rest[other], share, of, seconds + of->changing, &d->now[other]);
}

static void clear(const dividing *d, table *of) {
  for (int t = 0; t <= d->whole->size_count; t++)
    for (size_t i = 0; i < d->cells; i++)
      of[t].seconds[i] = d->whole->limit;
}

// Stages with so many behind them; `open`: or more.
static void add_depth(dividing *d, int depth, bool open) {
  clear(d, d->now);
  for (int x = 1; x < d->shares; x++)
    for (int i = 0;
         d->whole->ends[x] && i < d->stage_count[depth] && d->stages[depth][i].share <= x; i++) {
      const stage *of = &d->stages[depth][i];
      int after = x - of->share, step = d->step[of->size];
      if (!d->whole->ends[after] || d->low[after] + step > d->high[x] ||
          d->high[after] + step < d->low[x] || !holds(d, x, of->share))
        continue;
      add_stages(d, d->before, x, of);
      if (open) add_stages(d, d->now, x, of);
    }
}

// Depths from which on stages are alike are told as one where their number says little.
static int unlike_depths(const dividing *d) {
  int depths = d->whole->depths, last = depths - 1;
  if (d->whole->least_stages > 1) return depths;
  size_t bytes = (size_t)d->stage_count[last] * sizeof **d->stages;
  for (; last > 0 && d->stage_count[last - 1] == d->stage_count[depths - 1]; last--)
    if (memcmp(d->stages[last - 1], d->stages[depths - 1], bytes)) break;
  return last + 1;
}

static table *new_tables(bd_ctx *ctx, const dividing *d) {
  int count = d->whole->size_count + 1;
  table *out = BD_NEW_ARRAY(ctx->arena, table, count);
  for (int t = 0; t < count; t++)
    out[t] = (table){bd_arena_array(ctx->arena, d->cells, sizeof(double)),
                     bd_arena_array(ctx->arena, d->cells, sizeof(uint64_t))};
  clear(d, out);
  return out;
}

static double divide(bd_ctx *ctx, dividing *d, uint64_t *out_used) {
  const bd_whole *p = d->whole;
  double best = p->limit;
  d->stages = BD_NEW_ARRAY(ctx->arena, stage *, p->depths);
  d->stage_count = BD_NEW_ARRAY(ctx->arena, int, p->depths);
  d->before = new_tables(ctx, d);
  d->now = new_tables(ctx, d);
  for (int i = 0; i < p->size_count; i++)
    for (int n = 0; n <= d->high[0]; n++)
      d->before[i].seconds[cell_of(d, 0, n)] = 0; // of no layers
  for (int depth = 0; depth < p->depths; depth++)
    list_stages(ctx, d, depth);
  int depths = unlike_depths(d);
  for (int depth = 0; depth < depths; depth++) {
    bool open = depth + 1 == depths && depths < p->most_stages;
    add_depth(d, depth, open);
    // Devices that nothing takes are idle: high[] counts all of them.
    size_t all = cell_of(d, d->shares - 1, d->width - 1);
    for (int i = 0; i < p->size_count && (open || depth + 1 >= p->least_stages); i++) {
      if (d->now[i].seconds[all] >= best) continue;
      best = d->now[i].seconds[all];
      *out_used = d->now[i].used[all];
    }
    table *swap = d->before;
    d->before = d->now;
    d->now = swap;
  }
  return best;
}

// Whether stages of a size have the time for layers of a kind that is some work.
static bool is_worth_counting(const dividing *d, int size) {
  const bd_whole *p = d->whole;
  for (int k = 0; k < p->kinds->count; k++) {
    double work = INFINITY;
    for (int i = 0; i < p->size_count; i++)
      work = fmin(work, p->sizes[i] * layer_seconds(d, k, i));
    if (layer_seconds(d, k, size) < p->limit && work * LITTLE > p->limit * p->devices) return true;
  }
  return false;
}

static void choose_unit(bd_ctx *ctx, dividing *d) {
  const bd_whole *p = d->whole;
  for (int i = 0; i < p->size_count; i++)
    if (is_worth_counting(d, i)) d->unit = (int)bd_common_divisor(p->sizes[i], d->unit);
  for (int i = 0; i < p->size_count && !d->unit; i++)
    d->unit = p->sizes[i];
  d->step = BD_NEW_ARRAY(ctx->arena, int, p->size_count);
  for (int i = 0; i < p->size_count && d->unit; i++)
    d->step[i] = p->sizes[i] / d->unit;
}

static double run(bd_ctx *ctx, const bd_whole *whole, bool *out_used) {
  dividing d = {.whole = whole};
  uint64_t used = 0;
  choose_unit(ctx, &d);
  if (!d.unit) return whole->limit;
  d.width = whole->devices / d.unit + 1;
  d.least_tie = INFINITY;
  for (int i = 0; i < whole->size_count && whole->tie; i++)
    d.least_tie = fmin(d.least_tie, whole->tie[i]);
  list_shares(ctx, &d);
  bound_devices(ctx, &d);
  if (d.low[d.shares - 1] >= d.width) return whole->limit;
  open_rows(ctx, &d);
  double seconds = divide(ctx, &d, &used);
  for (int i = 0; i < whole->size_count; i++)
    out_used[i] = used >> i & 1;
  return seconds;
}

double bd_whole_seconds(bd_ctx *ctx, const bd_whole *whole, bool *out_used) {
  bd_owned held;
  bd_arena *kept = ctx->arena, *arena = bd_ctx_open_arena(ctx, &held);
  ctx->arena = arena;
  memset(out_used, 0, sizeof *out_used * (size_t)whole->size_count);
  double seconds = run(ctx, whole, out_used);
  ctx->arena = kept;
  bd_ctx_close_arena(ctx, &held);
  return seconds;
}
