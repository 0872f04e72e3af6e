#include "planner/graph/fronts.h"
#include "planner/graph/weights.h"
#include "planner/graph/windows.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct bd_front_trail {
  int before, option;
};

// A way to run the layers so far, which others may follow.
typedef struct way {
  bd_layers_criteria criteria;
  double sync;
  int64_t bytes, workspace; // of a device
  int trail;                // until the way is kept, that of the way before its last layer
  int option;               // of its last layer
} way;

typedef struct ways {
  int count, capacity;
  way *items;
} ways;

// The layers of one stage in one mode.
typedef struct building {
  bd_ctx *ctx;
  bd_fronts *fronts;
  const bd_layers_setting *setting;
  int stage, mode, forms;
  int64_t cap_bytes;
  bd_layers_criteria *change; // [f][g]: of the cut at hand
} building;

static bool beats(const bd_layers_setting *setting, const way *a, const way *b) {
  for (int i = 0; i < setting->criteria; i++)
    if (a->criteria.at[i] > b->criteria.at[i] + setting->tolerance) return false;
  return a->bytes <= b->bytes && a->workspace <= b->workspace &&
         a->sync <= b->sync + setting->tolerance;
}

static int by_time(const void *left, const void *right) {
  const way *a = left, *b = right;
  if (a->criteria.at[0] != b->criteria.at[0]) return a->criteria.at[0] < b->criteria.at[0] ? -1 : 1;
  if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
  return a->trail < b->trail ? -1 : a->trail > b->trail;
}

static int64_t room_of(const way *w) {
  return w->bytes + w->workspace;
}

// As good as each of `count` ways, or the leanest of them.
static way stand_for(const bd_fronts *fronts, const way *group, int count) {
  way out = group[0];
  for (int i = 1; i < count; i++) {
    const way *w = &group[i];
    if (fronts->thinning == BD_FRONT_DROP) {
      if (room_of(w) < room_of(&out)) out = *w;
      continue;
    }
    for (int c = 0; c < fronts->setting->criteria; c++)
      out.criteria.at[c] = fmin(out.criteria.at[c], w->criteria.at[c]);
    out.sync = fmin(out.sync, w->sync);
    if (w->bytes < out.bytes) out.bytes = w->bytes;
    if (w->workspace < out.workspace) out.workspace = w->workspace;
  }
  if (count > 1 && fronts->thinning == BD_FRONT_MERGE) out.trail = -1;
  return out;
}

// Down to about `limit` ways: groups of near ones, fastest first, become one each; the fastest of
// all stays.
static void thin(bd_fronts *fronts, ways *set) {
  if (set->count <= fronts->limit) return;
  fronts->thinned = true;
  qsort(set->items, (size_t)set->count, sizeof *set->items, by_time);
  int size = (set->count + fronts->limit - 1) / fronts->limit, kept = 1;
  for (int at = 1; at < set->count; at += size) {
    int count = set->count - at < size ? set->count - at : size;
    set->items[kept++] = stand_for(fronts, &set->items[at], count);
  }
  set->count = kept;
}

static int add_trail(building *b, const way *w) {
  bd_fronts *fronts = b->fronts;
  if (fronts->trail_count == fronts->trail_capacity) {
    int wanted = fronts->trail_capacity ? 2 * fronts->trail_capacity : 1024;
    fronts->trails = bd_arena_grow(b->ctx->arena, fronts->trails, (size_t)fronts->trail_count,
                                   (size_t)wanted, sizeof *fronts->trails);
    fronts->trail_capacity = wanted;
  }
  fronts->trails[fronts->trail_count] = (struct bd_front_trail){w->trail, w->option};
  return fronts->trail_count++;
}

static void keep(building *b, ways *set, const way *added) {
  if (!bd_layers_spend(b->fronts->meter, set->count + 1, b->fronts->most_work))
    b->fronts->stopped = true;
  for (int i = 0; i < set->count; i++)
    if (beats(b->setting, &set->items[i], added)) return;
  int kept = 0;
  for (int i = 0; i < set->count; i++)
    if (!beats(b->setting, added, &set->items[i])) set->items[kept++] = set->items[i];
  set->count = kept;
  if (kept == set->capacity) {
    int wanted = kept ? 2 * kept : 8;
    set->items =
        bd_arena_grow(b->ctx->arena, set->items, (size_t)kept, (size_t)wanted, sizeof(way));
    set->capacity = wanted;
  }
  set->items[set->count] = *added;
  set->items[set->count++].trail = add_trail(b, added);
  if (set->count > 2 * b->fronts->limit) thin(b->fronts, set);
}

// Whether a plan that runs layers [first, last) so, and perhaps more of them on the same stage, may
// be wanted.
static bool may_serve(const building *b, const way *w, int first, int last) {
  const bd_layers_setting *setting = b->setting;
  const double *fill = setting->fill_before, *rest = setting->rest_before,
               *work = setting->work_before;
  int layers = setting->problem->layer_count;
  if (w->bytes + w->workspace > b->cap_bytes) return false;
  double others = fill[layers] - fill[last] + fill[first];
  double slowest =
      bd_layers_rest(setting, &w->criteria) + bd_layers_rest_second(setting, &w->criteria);
  double own = bd_layers_linear_rest(setting, &w->criteria);
  double mean = (own + rest[layers] - rest[last] + rest[first]) / setting->stages;
  double share = (setting->mode_weight[b->mode] * own + work[layers] - work[last] + work[first]) /
                 setting->capacity;
  if (others + bd_layers_fill(setting, &w->criteria) + fmax(slowest, fmax(mean, share)) + w->sync >=
      b->fronts->cutoff)
    return false;
  const bd_layers_windows *windows = b->fronts->windows;
  if (!windows) return true;
  double sync = windows->intervals->prices->sync_weight[b->stage] * w->sync;
  bd_layers_hand seconds = {bd_layers_fill(setting, &w->criteria) + sync, own};
  return bd_layers_windows_serve(windows, b->stage, b->mode, first, last, seconds, (double)w->bytes,
                                 (double)w->workspace);
}

// Whether the interval may be one of a plan that is wanted.
static bool is_wanted(const building *b, int first, int last) {
  const bd_layers_windows *windows = b->fronts->windows;
  if (b->stage == b->setting->stages - 1 && last < b->setting->problem->layer_count) return false;
  return !windows || bd_layers_window_at(windows, b->stage, b->mode, first, last)->sum >= 0;
}

// `from` with one more layer under one of its options; forms that cannot change: false.
static bool follow(building *b, const way *from, int left, int layer, int option, way *out) {
  const bd_layers_option *o = &b->setting->problem->layers[layer].options[option];
  *out = *from;
  out->option = option;
  if (left >= 0) {
    const bd_layers_criteria *change = &b->change[left * b->forms + o->form];
    if (!isfinite(change->at[0])) return false;
    bd_layers_criteria_add(b->setting, &out->criteria, change);
  }
  bd_layers_criteria_add(b->setting, &out->criteria,
                         bd_layers_option_criteria(b->setting, layer, option));
  out->sync += o->sync_seconds;
  out->bytes += o->fixed_bytes + bd_layers_option_held(b->setting, b->stage, o);
  if (o->workspace_bytes > out->workspace) out->workspace = o->workspace_bytes;
  return true;
}

static void read_change(building *b, int layer) {
  const double *seconds = &b->setting->problem->cuts[layer].change[b->mode * b->forms * b->forms];
  for (int i = 0; i < b->forms * b->forms; i++) {
    b->change[i] = bd_layers_criteria_both(b->setting, isfinite(seconds[i]) ? seconds[i] : 0);
    if (!isfinite(seconds[i])) b->change[i].at[0] = INFINITY;
  }
}

// All ways of [first, layer) with `layer` added. `from` NULL: the interval begins here.
static ways *extend(building *b, const ways *from, int first, int layer) {
  const bd_layers_problem *problem = b->setting->problem;
  const bd_layers_usable *usable = bd_layers_usable_of(b->setting, layer, b->mode);
  int F = b->forms;
  ways *out = BD_NEW_ARRAY(b->ctx->arena, ways, F * F);
  way begin = {.trail = -1}, next;
  if (!from && first)
    begin.bytes = b->setting->hold[b->stage].tapes * problem->cuts[first].held_bytes[b->mode];
  if (from) read_change(b, layer);
  for (int k = 0; k < usable->count; k++) {
    int option = usable->option[k], form = problem->layers[layer].options[option].form;
    for (int at = 0; at < (from ? F * F : 1); at++)
      for (int i = 0; i < (from ? from[at].count : 1); i++) {
        const way *w = from ? &from[at].items[i] : &begin;
        if (b->fronts->stopped || !follow(b, w, from ? at % F : -1, layer, option, &next)) break;
        if (!may_serve(b, &next, first, layer + 1)) continue;
        keep(b, &out[(from ? at / F : form) * F + form], &next);
      }
  }
  return out;
}

static bool same_time(const bd_layers_setting *setting, const bd_front_item *a, const way *b) {
  for (int i = 0; i < setting->criteria; i++)
    if (a->criteria.at[i] > b->criteria.at[i] + setting->tolerance) return false;
  return a->sync <= b->sync + setting->tolerance;
}

// What counts once the interval is whole: its times.
static bd_front close_ways(building *b, ways *set) {
  bd_front out = {.items = BD_NEW_ARRAY(b->ctx->arena, bd_front_item, set->count)};
  if (set->count) qsort(set->items, (size_t)set->count, sizeof *set->items, by_time);
  for (int i = 0; i < set->count; i++) {
    const way *w = &set->items[i];
    bool beaten = false;
    for (int k = 0; k < out.count && !beaten; k++)
      beaten = same_time(b->setting, &out.items[k], w);
    if (!beaten) out.items[out.count++] = (bd_front_item){w->criteria, w->sync, w->trail};
  }
  return out;
}

static size_t row_index(const bd_fronts *fronts, int stage, int mode, int first) {
  const bd_layers_problem *problem = fronts->setting->problem;
  return ((size_t)stage * (size_t)problem->mode_count + (size_t)mode) *
             (size_t)problem->layer_count +
         (size_t)first;
}

// Layer from which on intervals that begin at `first` have an end of their own: up to there they
// are like those of `model`, which begins one layer earlier in the same run of equal layers.
static int common_end(const bd_layers_problem *problem, int first, int model) {
  int end = first;
  if (model < 0) return first;
  while (end < problem->layer_count && problem->layers[end].class == problem->layers[model].class)
    end++;
  return end;
}

// The row of `first`. `kept` are the ways by length of the row `model` (-1: none), and after the
// call those of this row.
static void build_row(building *b, int first, int model, ways **kept) {
  bd_fronts *fronts = b->fronts;
  const bd_layers_problem *problem = b->setting->problem;
  size_t row = row_index(fronts, b->stage, b->mode, first), cells = (size_t)(b->forms * b->forms);
  int most = problem->layer_count - (b->setting->stages - 1 - b->stage) - first;
  if (fronts->windows) {
    int reach = bd_layers_windows_reach(fronts->windows, b->stage, b->mode, first);
    most = reach - first < most ? reach - first : most;
    if (most < 0) most = 0;
  }
  int common = common_end(problem, first, model) - first;
  bd_front *out = bd_arena_array(b->ctx->arena, (size_t)most * cells, sizeof *out);
  int length = 0;
  bool last = b->stage == b->setting->stages - 1;
  while (length < most && !fronts->stopped) {
    bool wanted = is_wanted(b, first, first + length + 1);
    if (length >= common)
      kept[length] = extend(b, length ? kept[length - 1] : NULL, first, first + length);
    bool any = false;
    for (size_t i = 0; kept[length] && i < cells; i++) {
      any = any || kept[length][i].count;
      if (!wanted) continue;
      out[(size_t)length * cells + i] = length < common && !last
                                            ? fronts->rows[row - 1][(size_t)length * cells + i]
                                            : close_ways(b, &kept[length][i]);
    }
    if (!any) break;
    length++;
    fronts->stopped =
        fronts->stopped || !bd_layers_spend(fronts->meter, (int64_t)cells, fronts->most_work);
  }
  if (length < most) kept[length] = NULL;
  fronts->rows[row] = out;
  fronts->lengths[row] = length;
}

static void build_rows(building *b) {
  const bd_layers_problem *problem = b->setting->problem;
  int last = problem->layer_count - (b->setting->stages - b->stage);
  ways **kept = BD_NEW_ARRAY(b->ctx->arena, ways *, problem->layer_count + 1);
  for (int first = b->stage; first <= last && !b->fronts->stopped; first++) {
    if (b->stage == 0 && first > 0) break;
    // What is held on entering differs before the first of a run.
    int model = -1;
    if (!b->fronts->windows && first > b->stage && first > 1 &&
        problem->layers[first].class == problem->layers[first - 1].class &&
        problem->layers[first].class == problem->layers[first - 2].class)
      model = first - 1;
    build_row(b, first, model, kept);
  }
}

void bd_fronts_build(bd_ctx *ctx, bd_fronts *fronts) {
  const bd_layers_setting *setting = fronts->setting;
  const bd_layers_problem *problem = setting->problem;
  size_t rows = row_index(fronts, setting->stages, 0, 0);
  int F = problem->form_count;
  fronts->rows = bd_arena_array(ctx->arena, rows, sizeof *fronts->rows);
  fronts->lengths = bd_arena_array(ctx->arena, rows, sizeof *fronts->lengths);
  building b = {.ctx = ctx, .fronts = fronts, .setting = setting, .forms = F};
  b.change = BD_NEW_ARRAY(ctx->arena, bd_layers_criteria, F * F);
  for (b.stage = 0; b.stage < setting->stages; b.stage++)
    for (b.mode = 0; b.mode < problem->mode_count; b.mode++) {
      if (fronts->windows) bd_layers_intervals_select(fronts->windows->intervals, b.stage, b.mode);
      b.cap_bytes = problem->groups[problem->modes[b.mode].group].cap_bytes;
      build_rows(&b);
    }
}

const bd_front *bd_fronts_get(const bd_fronts *fronts, int stage, int mode, int first, int last,
                              int enter, int leave) {
  static const bd_front none;
  size_t row = row_index(fronts, stage, mode, first);
  int F = fronts->setting->problem->form_count;
  if (last - first > fronts->lengths[row]) return &none;
  return &fronts->rows[row][((last - first - 1) * F + enter) * F + leave];
}

void bd_fronts_trace(const bd_fronts *fronts, int trail, int length, int *out_options) {
  for (int i = length - 1; i >= 0; i--) {
    out_options[i] = fronts->trails[trail].option;
    trail = fronts->trails[trail].before;
  }
}
