#include "planner/graph/bottleneck.h"
#include "planner/graph/weights.h"
#include <math.h>

enum { CELL_LIMIT = 1 << 21, LIMITS = 400, BUCKETS = 12 };
#define ROUNDING 1e-12

typedef struct parent {
  int first, state, mode;
} parent;

// Cells are [stage][first][state][mode]: a stage that begins so, its own devices taken.
typedef struct narrowing {
  bd_layers_intervals *n;
  size_t cells;
  double *before; // the least sum of the stages before
  double *after;  // the same of it and those that follow
  parent *parents;
  double rest; // the slowest stage of the path that was found
  bd_priced_path path;
} narrowing;

static size_t cell(const narrowing *d, int stage, int first, int state, int mode) {
  size_t at = (size_t)stage * (size_t)(d->n->layers + 1) + (size_t)first;
  return (at * (size_t)d->n->devices.states + (size_t)state) * (size_t)d->n->modes + (size_t)mode;
}

static bool open(bd_ctx *ctx, bd_layers_intervals *n, narrowing *out) {
  *out = (narrowing){.n = n};
  double cells = (double)(n->stages + 1) * (n->layers + 1) * n->devices.states * n->modes +
                 (double)n->devices.states * n->modes;
  if (cells > CELL_LIMIT) return false;
  out->cells = (size_t)cells;
  out->before = BD_NEW_ARRAY(ctx->arena, double, (int)cells);
  out->parents = BD_NEW_ARRAY(ctx->arena, parent, (int)cells);
  out->path = bd_priced_path_new(ctx, n->layers);
  return true;
}

static bool is_last(const narrowing *d, int stage) {
  return stage == d->n->stages - 1;
}

static int last_first(const narrowing *d, int stage) {
  return stage ? d->n->layers - (d->n->stages - stage) : 0;
}

static bd_layers_hand receive_of(const narrowing *d, int first, int mode) {
  return bd_layers_hand_of(d->n->setting, first ? d->n->receive[first * d->n->modes + mode] : 0);
}

// One way on from a stage: `next` begins at `end`. Nothing follows the last stage.
typedef struct passage {
  size_t to;
  double sum, rest; // of the stage, with what it receives and sends
} passage;

static bool find_passage(const narrowing *d, int stage, int first, int state, int mode, int end,
                         int next, double limit, passage *out) {
  bool last = is_last(d, stage);
  const bd_layers_interval *at = bd_layers_interval_at(d->n, stage, mode, first, end);
  bd_layers_hand receive = receive_of(d, first, mode), send = {0, 0};
  int then = last ? 0 : bd_devices_take(&d->n->devices, state, next);
  if (then < 0) return false;
  if (!last) send = bd_layers_hand_of(d->n->setting, bd_layers_least_send(d->n, end, mode, next));
  out->sum = at->sum + receive.sum + send.sum;
  out->rest = at->rest + receive.rest + send.rest;
  out->to = cell(d, stage + 1, end, then, last ? 0 : next);
  return out->rest <= limit && isfinite(out->sum);
}

// Ends of a stage beyond which it does not fit, or is too slow.
static int ends(const narrowing *d, int stage, int mode, int first, double limit) {
  int end = first + 1, most = d->n->layers - (d->n->stages - 1 - stage);
  double receive = receive_of(d, first, mode).rest;
  while (end <= most) {
    const bd_layers_interval *at = bd_layers_interval_at(d->n, stage, mode, first, end);
    if (!isfinite(at->sum) || at->rest + receive > limit) break;
    end++;
  }
  return end - 1;
}

static int first_end(const narrowing *d, int stage, int first) {
  return is_last(d, stage) ? d->n->layers : first + 1;
}

static void relax_forward(narrowing *d, int stage, int first, int state, int mode, double limit) {
  double sum = d->before[cell(d, stage, first, state, mode)];
  int most = ends(d, stage, mode, first, limit);
  for (int end = first_end(d, stage, first); end <= most; end++)
    for (int next = 0; next < (is_last(d, stage) ? 1 : d->n->modes); next++) {
      passage on;
      if (!find_passage(d, stage, first, state, mode, end, next, limit, &on)) continue;
      if (sum + on.sum >= d->before[on.to]) continue;
      d->before[on.to] = sum + on.sum;
      d->parents[on.to] = (parent){first, state, mode};
    }
  bd_layers_intervals_spend(d->n, most - first + 1);
}

// The least sum with no stage slower than the limit, INFINITY: there is none.
static double least_sum(narrowing *d, double limit) {
  bd_layers_intervals *n = d->n;
  for (size_t i = 0; i < d->cells; i++)
    d->before[i] = INFINITY;
  for (int mode = 0; mode < n->modes; mode++) {
    int state = bd_devices_take(&n->devices, 0, mode);
    if (state >= 0) d->before[cell(d, 0, 0, state, mode)] = 0;
  }
  for (int stage = 0; stage < n->stages; stage++)
    for (int first = stage; first <= last_first(d, stage) && !n->stopped; first++) {
      bd_layers_intervals_spend(n, n->devices.states * n->modes);
      for (int state = 0; state < n->devices.states; state++)
        for (int mode = 0; mode < n->modes; mode++)
          if (isfinite(d->before[cell(d, stage, first, state, mode)]))
            relax_forward(d, stage, first, state, mode, limit);
    }
  return d->before[cell(d, n->stages, n->layers, 0, 0)];
}

static int fastest_option(const bd_layers_intervals *n, int layer, int mode) {
  const bd_layers_setting *s = n->setting;
  const bd_layers_usable *usable = &s->usable[layer * n->modes + mode];
  int best = usable->option[0];
  for (int i = 1; i < usable->count; i++)
    if (bd_layers_linear_rest(s, bd_layers_option_criteria(s, layer, usable->option[i])) <
        bd_layers_linear_rest(s, bd_layers_option_criteria(s, layer, best)))
      best = usable->option[i];
  return best;
}

static void trace(narrowing *d) {
  int end = d->n->layers, state = 0, mode = 0;
  d->rest = 0;
  for (int stage = d->n->stages - 1; stage >= 0; stage--) {
    parent at = d->parents[cell(d, stage + 1, end, state, mode)];
    passage on;
    (void)find_passage(d, stage, at.first, at.state, at.mode, end, mode, INFINITY, &on);
    d->rest = fmax(d->rest, on.rest);
    for (int l = at.first; l < end; l++) {
      d->path.part[l] = stage;
      d->path.mode[l] = at.mode;
      d->path.option[l] = fastest_option(d->n, l, at.mode);
    }
    end = at.first;
    state = at.state;
    mode = at.mode;
  }
}

void bd_layers_bottleneck(bd_ctx *ctx, bd_layers_intervals *n, double cutoff,
                          void (*visit)(void *user, const bd_priced_path *path), void *user,
                          double *out_bound) {
  narrowing d;
  double limit = INFINITY, best = cutoff;
  *out_bound = 0;
  if (!open(ctx, n, &d)) return;
  for (int round = 0; round < LIMITS; round++) {
    double sum = least_sum(&d, limit);
    if (n->stopped) break;
    // Plans with a slower stage than the limit are no better than the best.
    *out_bound = fmin(sum, best);
    if (!(sum < best)) return;
    trace(&d);
    if (visit) visit(user, &d.path);
    best = fmin(best, sum + d.rest);
    limit = fmax(0, fmin(best - sum, d.rest * (1 - ROUNDING)));
  }
}

// `after` from the last stage to the first.
static void look_back(narrowing *d, double limit) {
  bd_layers_intervals *n = d->n;
  for (size_t i = 0; i < d->cells; i++)
    d->after[i] = INFINITY;
  d->after[cell(d, n->stages, n->layers, 0, 0)] = 0;
  for (int stage = n->stages - 1; stage >= 0; stage--)
    for (int first = stage; first <= last_first(d, stage) && !n->stopped; first++)
      for (int mode = 0; mode < n->modes; mode++) {
        int most = ends(d, stage, mode, first, limit);
        for (int state = 0; state < n->devices.states; state++) {
          size_t from = cell(d, stage, first, state, mode);
          if (!isfinite(d->before[from])) continue;
          bd_layers_intervals_spend(n, most - first + 1);
          for (int end = first_end(d, stage, first); end <= most; end++)
            for (int next = 0; next < (is_last(d, stage) ? 1 : n->modes); next++) {
              passage on;
              if (find_passage(d, stage, first, state, mode, end, next, limit, &on))
                d->after[from] = fmin(d->after[from], on.sum + d->after[on.to]);
            }
        }
      }
}

// Widens the window of an interval by the plans through it whose slowest stage is in (low, limit].
static void widen(narrowing *d, bd_layers_windows *w, int stage, int mode, int first, int end,
                  double low, double limit, double cutoff) {
  const bd_layers_interval *at = bd_layers_interval_at(d->n, stage, mode, first, end);
  bd_layers_window *out = &w->at[at - d->n->at];
  for (int state = 0; state < d->n->devices.states; state++) {
    double before = d->before[cell(d, stage, first, state, mode)];
    for (int next = 0; isfinite(before) && next < (is_last(d, stage) ? 1 : d->n->modes); next++) {
      passage on;
      if (!find_passage(d, stage, first, state, mode, end, next, limit, &on)) continue;
      double through = before + on.sum + d->after[on.to], slowest = fmax(on.rest, low);
      if (!(through + slowest < cutoff)) continue;
      double spare = cutoff - through - slowest, slower = fmin(limit, cutoff - through) - on.rest;
      out->sum = fmax(out->sum, at->sum + spare);
      out->rest = fmax(out->rest, at->rest + slower);
      w->any = true;
    }
  }
}

static void widen_all(narrowing *d, bd_layers_windows *w, double low, double limit, double cutoff) {
  bd_layers_intervals *n = d->n;
  for (int stage = 0; stage < n->stages; stage++)
    for (int mode = 0; mode < n->modes; mode++)
      for (int first = stage; first <= last_first(d, stage) && !n->stopped; first++) {
        int *reach = &w->reach[(stage * n->modes + mode) * n->layers + first];
        int most = ends(d, stage, mode, first, limit);
        bd_layers_intervals_spend(n, (int64_t)(most - first) * n->devices.states * n->modes);
        for (int end = first_end(d, stage, first); end <= most; end++) {
          widen(d, w, stage, mode, first, end, low, limit, cutoff);
          if (bd_layers_window_at(w, stage, mode, first, end)->sum >= 0 && end > *reach)
            *reach = end;
        }
      }
}

bool bd_layers_windows_open(bd_ctx *ctx, bd_layers_intervals *n, double cutoff,
                            bd_layers_windows *w) {
  narrowing d;
  size_t count = (size_t)(n->stages * n->modes) * (size_t)(n->layers * (n->layers + 1));
  *w = (bd_layers_windows){.intervals = n};
  if (!isfinite(cutoff) || !open(ctx, n, &d)) return false;
  cutoff += ROUNDING * cutoff;
  d.after = BD_NEW_ARRAY(ctx->arena, double, (int)d.cells);
  w->at = bd_arena_array(ctx->arena, count, sizeof *w->at);
  w->reach = BD_NEW_ARRAY(ctx->arena, int, n->stages * n->modes * n->layers);
  for (size_t i = 0; i < count; i++)
    w->at[i] = (bd_layers_window){-1, -1};
  double low = n->setting->rest_before[n->layers] / n->stages * (1 - ROUNDING);
  double high = cutoff - least_sum(&d, INFINITY);
  for (int k = 0; k < BUCKETS && high > low && !n->stopped; k++) {
    double from = low + (high - low) * k / BUCKETS, to = low + (high - low) * (k + 1) / BUCKETS;
    if (!(least_sum(&d, to) + from < cutoff)) continue;
    look_back(&d, to);
    widen_all(&d, w, from, to, cutoff);
  }
  return !n->stopped;
}

bool bd_layers_windows_serve(const bd_layers_windows *w, int stage, int mode, int first, int last,
                             bd_layers_hand seconds, double bytes, double workspace) {
  const bd_layers_intervals *n = w->intervals;
  double cap = (double)bd_layers_mode_cap(n->problem, mode);
  double room = cap - workspace - bytes;
  int width = n->layers + 1, reach = bd_layers_windows_reach(w, stage, mode, first);
  for (int end = last; end <= reach; end++) {
    const bd_layers_window *window = bd_layers_window_at(w, stage, mode, first, end);
    const bd_layers_interval *at = bd_layers_interval_at(n, stage, mode, first, end);
    if (window->sum < 0) continue;
    const double *sum = &n->before[0][at->price[0] * width],
                 *rest = &n->before[1][at->price[1] * width];
    double more = sum[end] - sum[last] - n->grid[at->price[0]] * room;
    double slower = rest[end] - rest[last] - n->grid[at->price[1]] * room;
    double slack = ROUNDING * (sum[end] + rest[end] + n->grid[at->price[0]] * cap);
    if (seconds.sum + fmax(more, 0) <= window->sum + slack &&
        seconds.rest + fmax(slower, 0) <= window->rest + slack)
      return true;
  }
  return false;
}
