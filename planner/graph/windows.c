#include "planner/graph/windows.h"
#include "planner/graph/limited.h"
#include <math.h>

enum { BUCKETS = 12 };

typedef struct widening {
  bd_limited_paths paths;
  double *after; // per cell of the paths: the least sum of its stage and those that follow
  bd_layers_windows *windows;
} widening;

// `after` from the last stage to the first.
static void look_back(widening *d, double limit) {
  const bd_limited_paths *p = &d->paths;
  bd_layers_intervals *n = p->intervals;
  for (size_t i = 0; i < p->cells; i++)
    d->after[i] = INFINITY;
  d->after[bd_limited_cell(p, n->stages, n->layers, 0, 0)] = 0;
  for (int stage = n->stages - 1; stage >= 0; stage--)
    for (int first = stage; first <= bd_limited_last_first(p, stage) && !n->stopped; first++)
      for (int mode = 0; mode < n->modes; mode++) {
        int most = bd_limited_last_end(p, stage, mode, first, limit);
        for (int state = 0; state < n->devices.states; state++) {
          size_t from = bd_limited_cell(p, stage, first, state, mode);
          if (!isfinite(p->before[from])) continue;
          bd_layers_intervals_spend(n, most - first + 1);
          for (int end = bd_limited_first_end(p, stage, first); end <= most; end++)
            for (int next = 0; next < bd_limited_nexts(p, stage); next++) {
              bd_limited_passage on;
              if (bd_limited_find_passage(p, stage, first, state, mode, end, next, limit, &on))
                d->after[from] = fmin(d->after[from], on.sum + d->after[on.to]);
            }
        }
      }
}

// Widens the window of an interval by the plans through it whose slowest stage is in (low, limit].
static void widen(widening *d, int stage, int mode, int first, int end, double low, double limit,
                  double cutoff) {
  const bd_limited_paths *p = &d->paths;
  const bd_layers_intervals *n = p->intervals;
  const bd_layers_interval *at = bd_layers_interval_at(n, stage, mode, first, end);
  bd_layers_window *out = &d->windows->at[at - n->at];
  for (int state = 0; state < n->devices.states; state++) {
    double before = p->before[bd_limited_cell(p, stage, first, state, mode)];
    for (int next = 0; isfinite(before) && next < bd_limited_nexts(p, stage); next++) {
      bd_limited_passage on;
      if (!bd_limited_find_passage(p, stage, first, state, mode, end, next, limit, &on)) continue;
      double through = before + on.sum + d->after[on.to], slowest = fmax(on.rest, low);
      if (!(through + slowest < cutoff)) continue;
      double spare = cutoff - through - slowest, slower = fmin(limit, cutoff - through) - on.rest;
      out->sum = fmax(out->sum, at->sum + spare);
      out->rest = fmax(out->rest, at->rest + slower);
    }
  }
}

static void widen_all(widening *d, double low, double limit, double cutoff) {
  const bd_limited_paths *p = &d->paths;
  const bd_layers_windows *w = d->windows;
  bd_layers_intervals *n = p->intervals;
  for (int stage = 0; stage < n->stages; stage++)
    for (int mode = 0; mode < n->modes; mode++)
      for (int first = stage; first <= bd_limited_last_first(p, stage) && !n->stopped; first++) {
        int *reach = &w->reach[(stage * n->modes + mode) * n->layers + first];
        int most = bd_limited_last_end(p, stage, mode, first, limit);
        bd_layers_intervals_spend(n, (int64_t)(most - first) * n->devices.states * n->modes);
        for (int end = bd_limited_first_end(p, stage, first); end <= most; end++) {
          widen(d, stage, mode, first, end, low, limit, cutoff);
          if (bd_layers_window_at(w, stage, mode, first, end)->sum >= 0 && end > *reach)
            *reach = end;
        }
      }
}

bool bd_layers_windows_open(bd_ctx *ctx, bd_layers_intervals *n, double cutoff,
                            bd_layers_windows *w) {
  widening d = {.windows = w};
  size_t count = (size_t)(n->stages * n->modes) * (size_t)(n->layers * (n->layers + 1));
  *w = (bd_layers_windows){.intervals = n};
  if (!isfinite(cutoff) || !bd_limited_open(ctx, n, &d.paths)) return false;
  cutoff += BD_LIMITED_ROUNDING * cutoff;
  d.after = BD_NEW_ARRAY(ctx->arena, double, (int)d.paths.cells);
  w->at = bd_arena_array(ctx->arena, count, sizeof *w->at);
  w->reach = BD_NEW_ARRAY(ctx->arena, int, n->stages * n->modes * n->layers);
  for (size_t i = 0; i < count; i++)
    w->at[i] = (bd_layers_window){-1, -1};
  double low = n->setting->rest_before[n->layers] / n->stages * (1 - BD_LIMITED_ROUNDING);
  double high = cutoff - bd_limited_least_sum(&d.paths, INFINITY);
  for (int k = 0; k < BUCKETS && high > low && !n->stopped; k++) {
    double from = low + (high - low) * k / BUCKETS, to = low + (high - low) * (k + 1) / BUCKETS;
    if (!(bd_limited_least_sum(&d.paths, to) + from < cutoff)) continue;
    look_back(&d, to);
    widen_all(&d, from, to, cutoff);
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
    double slack = BD_LIMITED_ROUNDING * (sum[end] + rest[end] + n->grid[at->price[0]] * cap);
    if (seconds.sum + fmax(more, 0) <= window->sum + slack &&
        seconds.rest + fmax(slower, 0) <= window->rest + slack)
      return true;
  }
  return false;
}
