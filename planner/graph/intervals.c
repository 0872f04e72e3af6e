#include "planner/graph/intervals.h"
#include "planner/graph/weights.h"
#include <math.h>

enum { GRID = 192, INTERVAL_LIMIT = 1 << 21, STATE_LIMIT = 1 << 10 };
#define ROUNDING 1e-13

bool bd_layers_intervals_spend(bd_layers_intervals *n, int64_t work) {
  if (!bd_layers_spend(n->effort->meter, work, n->effort->most_work)) n->stopped = true;
  return !n->stopped;
}

static double option_bytes(const bd_layers_intervals *n, int stage, const bd_layers_option *o) {
  return (double)o->fixed_bytes + (double)bd_layers_option_held(n->setting, stage, o);
}

// Prices of a byte that are of use: between a little and much of a second for all bytes.
static void make_grid(bd_layers_intervals *n) {
  double cap = n->prices->largest_cap;
  double seconds = n->setting->fill_before[n->layers] + n->setting->rest_before[n->layers];
  // Where the fastest options take no time, prices are for the slowest.
  if (!(seconds > 0)) seconds = n->prices->ceiling;
  double low = 1e-4 * seconds / cap, high = 1e2 * seconds / cap;
  for (int i = 0; i < GRID; i++)
    n->grid[i] = 0;
  if (!(low > 0)) return;
  for (int i = 1; i < GRID; i++)
    n->grid[i] = low * pow(high / low, (i - 1) / (double)(GRID - 2));
}

// The sums under one price go on by a layer.
static void add_layer(bd_layers_intervals *n, int stage, int layer, const bd_layers_usable *usable,
                      int price) {
  const bd_layers_setting *s = n->setting;
  double least[2] = {INFINITY, INFINITY};
  for (int i = 0; i < usable->count; i++) {
    const bd_layers_option *o = &n->problem->layers[layer].options[usable->option[i]];
    const bd_layers_criteria *c = bd_layers_option_criteria(s, layer, usable->option[i]);
    double of_bytes = n->grid[price] * option_bytes(n, stage, o);
    double sync = n->prices->sync_weight[stage] * o->sync_seconds;
    least[0] = fmin(least[0], bd_layers_fill(s, c) + sync + of_bytes);
    least[1] = fmin(least[1], bd_layers_linear_rest(s, c) + of_bytes);
  }
  for (int which = 0; which < 2; which++) {
    double *at = &n->before[which][price * (n->layers + 1) + layer];
    at[1] = at[0] + (usable->count ? least[which] : 0);
  }
}

void bd_layers_intervals_select(bd_layers_intervals *n, int stage, int mode) {
  n->bytes_before[0] = 0;
  for (int k = 0; k < GRID; k++)
    n->before[0][k * (n->layers + 1)] = n->before[1][k * (n->layers + 1)] = 0;
  for (int l = 0; l < n->layers; l++) {
    const bd_layers_usable *usable = bd_layers_usable_of(n->setting, l, mode);
    double bytes = INFINITY;
    n->workspace[l] = INFINITY;
    for (int i = 0; i < usable->count; i++) {
      const bd_layers_option *o = &n->problem->layers[l].options[usable->option[i]];
      bytes = fmin(bytes, option_bytes(n, stage, o));
      n->workspace[l] = fmin(n->workspace[l], (double)o->workspace_bytes);
    }
    // Where there is no option, the workspace says so.
    n->bytes_before[l + 1] = n->bytes_before[l] + (usable->count ? bytes : 0);
    if (!bd_layers_intervals_spend(n, (int64_t)GRID * usable->count / 4)) return;
    for (int k = 0; k < GRID; k++)
      add_layer(n, stage, l, usable, k);
  }
}

// The highest bound over the prices, to both sides of `at`, where the search ends.
static double best_price(const bd_layers_intervals *n, int which, int first, int end, double room,
                         int *at) {
  const double *before = n->before[which];
  int width = n->layers + 1;
  double best = before[*at * width + end] - before[*at * width + first] - n->grid[*at] * room;
  for (int step = 1; step >= -1; step -= 2)
    for (int k = *at + step; k >= 0 && k < GRID; k += step) {
      double value = before[k * width + end] - before[k * width + first] - n->grid[k] * room;
      if (value <= best) break;
      best = value;
      *at = k;
    }
  // Sums are rounded.
  return best - ROUNDING * (before[*at * width + end] + n->grid[*at] * fabs(room));
}

static void measure_row(bd_layers_intervals *n, int stage, int mode, int first) {
  double cap = (double)bd_layers_mode_cap(n->problem, mode), workspace = 0;
  int at[2] = {0, 0};
  const int *pin = n->problem->stage;
  double held = bd_layers_skipped_bytes(n->setting, first, stage, mode);
  for (int end = first; end <= n->layers; end++)
    *bd_layers_interval_at(n, stage, mode, first, end) =
        (bd_layers_interval){.sum = INFINITY, .rest = INFINITY};
  for (int end = first + 1; end <= n->layers; end++) {
    workspace = fmax(workspace, n->workspace[end - 1]);
    double room = cap - held - workspace, needed = n->bytes_before[end] - n->bytes_before[first];
    if (!(needed <= room + ROUNDING * n->bytes_before[end])) break;
    if (pin && pin[end - 1] >= 0 && pin[end - 1] != stage) break;
    bd_layers_interval *out = bd_layers_interval_at(n, stage, mode, first, end);
    out->sum = fmax(0, best_price(n, 0, first, end, room, &at[0]));
    out->rest = fmax(0, best_price(n, 1, first, end, room, &at[1]));
    out->price[0] = (unsigned char)at[0];
    out->price[1] = (unsigned char)at[1];
  }
  bd_layers_intervals_spend(n, n->layers - first);
}

static void measure_receives(bd_layers_intervals *n) {
  int cells = n->problem->form_count * n->problem->form_count, modes = n->modes;
  for (int l = 1; l < n->layers; l++)
    for (int to = 0; to < modes; to++) {
      double *out = &n->receive[l * modes + to];
      *out = INFINITY;
      for (int from = 0; from < modes; from++)
        for (int i = 0; i < cells; i++)
          *out = fmin(*out, n->problem->cuts[l].receive[(from * modes + to) * cells + i]);
    }
}

double bd_layers_least_send(const bd_layers_intervals *n, int layer, int from, int to) {
  int cells = n->problem->form_count * n->problem->form_count;
  const double *send = &n->problem->cuts[layer].send[(from * n->modes + to) * cells];
  double out = send[0];
  for (int i = 1; i < cells; i++)
    out = fmin(out, send[i]);
  return out;
}

bd_layers_hand bd_layers_hand_of(const bd_layers_setting *s, double seconds) {
  bd_layers_criteria both = bd_layers_criteria_both(s, seconds);
  return (bd_layers_hand){bd_layers_fill(s, &both), bd_layers_linear_rest(s, &both)};
}

bool bd_layers_intervals_open(bd_ctx *ctx, bd_layers_intervals *n) {
  bd_arena *arena = ctx->arena;
  n->problem = n->setting->problem;
  n->layers = n->problem->layer_count;
  n->stages = n->setting->stages;
  n->modes = n->problem->mode_count;
  n->stopped = false;
  double count = (double)n->stages * n->modes * n->layers * (n->layers + 1);
  if (count > INTERVAL_LIMIT) return false;
  bd_devices_open(n->problem, BD_DEVICES_IGNORED, STATE_LIMIT, &n->devices);
  n->at = BD_NEW_ARRAY(arena, bd_layers_interval, (int)count);
  n->grid = BD_NEW_ARRAY(arena, double, GRID);
  for (int which = 0; which < 2; which++)
    n->before[which] = BD_NEW_ARRAY(arena, double, GRID *(n->layers + 1));
  n->bytes_before = BD_NEW_ARRAY(arena, double, n->layers + 1);
  n->workspace = BD_NEW_ARRAY(arena, double, n->layers);
  n->receive = BD_NEW_ARRAY(arena, double, n->layers * n->modes);
  make_grid(n);
  measure_receives(n);
  for (int s = 0; s < n->stages && !n->stopped; s++)
    for (int mode = 0; mode < n->modes && !n->stopped; mode++) {
      bd_layers_intervals_select(n, s, mode);
      for (int first = s; first <= (s ? n->layers - (n->stages - s) : 0) && !n->stopped; first++)
        measure_row(n, s, mode, first);
    }
  return !n->stopped;
}
