#include "planner/graph/limited.h"
#include "planner/graph/weights.h"
#include <math.h>

enum { CELL_LIMIT = 1 << 21 };

size_t bd_limited_cell(const bd_limited_paths *p, int stage, int first, int state, int mode) {
  const bd_layers_intervals *n = p->intervals;
  size_t at = (size_t)stage * (size_t)(n->layers + 1) + (size_t)first;
  return (at * (size_t)n->devices.states + (size_t)state) * (size_t)n->modes + (size_t)mode;
}

bool bd_limited_open(bd_ctx *ctx, bd_layers_intervals *n, bd_limited_paths *out) {
  *out = (bd_limited_paths){.intervals = n};
  double cells = (double)(n->stages + 1) * (n->layers + 1) * n->devices.states * n->modes +
                 (double)n->devices.states * n->modes;
  if (cells > CELL_LIMIT) return false;
  out->cells = (size_t)cells;
  out->before = BD_NEW_ARRAY(ctx->arena, double, (int)cells);
  out->parents = BD_NEW_ARRAY(ctx->arena, bd_limited_parent, (int)cells);
  return true;
}

static bool is_last(const bd_limited_paths *p, int stage) {
  return stage == p->intervals->stages - 1;
}

int bd_limited_last_first(const bd_limited_paths *p, int stage) {
  const bd_layers_intervals *n = p->intervals;
  return stage ? n->layers - (n->stages - stage) : 0;
}

static bd_layers_hand receive_of(const bd_limited_paths *p, int first, int mode) {
  const bd_layers_intervals *n = p->intervals;
  return bd_layers_hand_of(n->setting, first ? n->receive[first * n->modes + mode] : 0);
}

bool bd_limited_find_passage(const bd_limited_paths *p, int stage, int first, int state, int mode,
                             int end, int next, double limit, bd_limited_passage *out) {
  const bd_layers_intervals *n = p->intervals;
  bool last = is_last(p, stage);
  const bd_layers_interval *at = bd_layers_interval_at(n, stage, mode, first, end);
  bd_layers_hand receive = receive_of(p, first, mode), send = {0, 0};
  int then = last ? 0 : bd_devices_take(&n->devices, state, next);
  if (then < 0) return false;
  if (!last) send = bd_layers_hand_of(n->setting, bd_layers_least_send(n, end, mode, next));
  out->sum = at->sum + receive.sum + send.sum;
  out->rest = at->rest + receive.rest + send.rest;
  out->to = bd_limited_cell(p, stage + 1, end, then, last ? 0 : next);
  return out->rest <= limit && isfinite(out->sum);
}

int bd_limited_last_end(const bd_limited_paths *p, int stage, int mode, int first, double limit) {
  const bd_layers_intervals *n = p->intervals;
  int end = first + 1, most = n->layers - (n->stages - 1 - stage);
  double receive = receive_of(p, first, mode).rest;
  while (end <= most) {
    const bd_layers_interval *at = bd_layers_interval_at(n, stage, mode, first, end);
    if (!isfinite(at->sum) || at->rest + receive > limit) break;
    end++;
  }
  return end - 1;
}

int bd_limited_first_end(const bd_limited_paths *p, int stage, int first) {
  return is_last(p, stage) ? p->intervals->layers : first + 1;
}

int bd_limited_nexts(const bd_limited_paths *p, int stage) {
  return is_last(p, stage) ? 1 : p->intervals->modes;
}

static void relax_forward(bd_limited_paths *p, int stage, int first, int state, int mode,
                          double limit) {
  double sum = p->before[bd_limited_cell(p, stage, first, state, mode)];
  int most = bd_limited_last_end(p, stage, mode, first, limit);
  for (int end = bd_limited_first_end(p, stage, first); end <= most; end++)
    for (int next = 0; next < bd_limited_nexts(p, stage); next++) {
      bd_limited_passage on;
      if (!bd_limited_find_passage(p, stage, first, state, mode, end, next, limit, &on)) continue;
      if (sum + on.sum >= p->before[on.to]) continue;
      p->before[on.to] = sum + on.sum;
      p->parents[on.to] = (bd_limited_parent){first, state, mode};
    }
  bd_layers_intervals_spend(p->intervals, most - first + 1);
}

double bd_limited_least_sum(bd_limited_paths *p, double limit) {
  bd_layers_intervals *n = p->intervals;
  for (size_t i = 0; i < p->cells; i++)
    p->before[i] = INFINITY;
  for (int mode = 0; mode < n->modes; mode++) {
    int state = bd_devices_take(&n->devices, 0, mode);
    if (state >= 0) p->before[bd_limited_cell(p, 0, 0, state, mode)] = 0;
  }
  for (int stage = 0; stage < n->stages; stage++)
    for (int first = stage; first <= bd_limited_last_first(p, stage) && !n->stopped; first++) {
      bd_layers_intervals_spend(n, n->devices.states * n->modes);
      for (int state = 0; state < n->devices.states; state++)
        for (int mode = 0; mode < n->modes; mode++)
          if (isfinite(p->before[bd_limited_cell(p, stage, first, state, mode)]))
            relax_forward(p, stage, first, state, mode, limit);
    }
  return p->before[bd_limited_cell(p, n->stages, n->layers, 0, 0)];
}
