#include "planner/graph/interleave.h"
#include "planner/graph/ascent.h"
#include "planner/graph/repair.h"
#include "planner/graph/weights.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TUPLE_LIMIT = 1 << 14 };

typedef struct stage_sum {
  double seconds, sync;
  int64_t fixed, workspace;
  int64_t tape; // of its largest chunk so far
} stage_sum;

// The layers so far.
typedef struct label {
  int part, form;      // of the last layer
  int64_t tape;        // of its part
  double part_seconds; // of its part
  double largest;      // part so far
  double priced;       // the layers so far under the prices
  double bound;        // no plan that goes on from here takes less
  int trail;
  stage_sum *stage; // per stage
} label;

typedef struct label_list {
  int count, capacity;
  label *items;
} label_list;

typedef struct step_trail {
  int before, part, option;
} step_trail;

// A mode for every stage.
typedef struct tuple {
  double bound;
  int number; // in the order of enumeration
  int *mode;
} tuple;

typedef struct weaving {
  bd_ctx *ctx;
  const bd_layers_setting *setting;
  const bd_layers_problem *problem;
  const bd_layers_effort *effort;
  int parts;
  double cutoff;
  double dropped;           // the least bound of labels of the tuple at hand that were left out
  double least;             // no plan of tuples that are done takes less
  bool stopped, enumerated; // enumerated: all tuples are known
  bool constructed;
  bd_layers_plan plan; // the best, when it is constructed
  int tuple_count, tuple_capacity;
  tuple *tuples;
  // Of the tuple at hand: per layer 0..layer_count the least sums of those from it on; the least
  // seconds of a layer on each stage.
  const int *mode;
  bd_layers_prices prices;
  double *fill_after, *rest_after, *work_after;
  double weight;           // of all stages
  double *least_layer;     // per stage
  label_list *here, *next; // per part
  stage_sum *trial;        // of the label that is tried
  int trail_count, trail_capacity;
  step_trail *trails;
  int best_trail;
  int *best_mode;
} weaving;

static int compare(const void *left, const void *right) {
  const label *a = left, *b = right;
  if (a->bound != b->bound) return a->bound < b->bound ? -1 : 1;
  if (a->largest != b->largest) return a->largest < b->largest ? -1 : 1;
  return a->trail < b->trail ? -1 : a->trail > b->trail;
}

static void drop_worst(weaving *w, label_list *list) {
  if (list->count <= w->effort->labels) return;
  qsort(list->items, (size_t)list->count, sizeof *list->items, compare);
  w->dropped = fmin(w->dropped, list->items[w->effort->labels].bound);
  list->count = w->effort->labels;
}

// Of labels with the same last part.
static bool beats(const weaving *w, const label *a, const label *b) {
  double slack = w->setting->tolerance;
  if (a->form != b->form || a->tape > b->tape) return false;
  for (int s = 0; s < w->setting->stages; s++) {
    const stage_sum *p = &a->stage[s], *q = &b->stage[s];
    if (p->seconds > q->seconds + slack || p->sync > q->sync + slack || p->fixed > q->fixed ||
        p->tape > q->tape || p->workspace > q->workspace)
      return false;
  }
  return true;
}

static int add_trail(weaving *w, step_trail trail) {
  if (w->trail_count == w->trail_capacity) {
    int wanted = w->trail_capacity ? 2 * w->trail_capacity : 1024;
    w->trails = bd_arena_grow(w->ctx->arena, w->trails, (size_t)w->trail_count, (size_t)wanted,
                              sizeof *w->trails);
    w->trail_capacity = wanted;
  }
  w->trails[w->trail_count] = trail;
  return w->trail_count++;
}

static void spend(weaving *w, int64_t work) {
  if (!bd_layers_spend(w->effort->meter, work, w->effort->most_work)) w->stopped = true;
}

static void keep(weaving *w, const label *added, step_trail trail) {
  label_list *list = &w->next[added->part];
  spend(w, list->count);
  for (int i = 0; i < list->count; i++)
    if (beats(w, &list->items[i], added)) return;
  int kept = 0;
  for (int i = 0; i < list->count; i++)
    if (!beats(w, added, &list->items[i])) list->items[kept++] = list->items[i];
  list->count = kept;
  if (kept == list->capacity) {
    int wanted = kept ? 2 * kept : 8;
    list->items =
        bd_arena_grow(w->ctx->arena, list->items, (size_t)kept, (size_t)wanted, sizeof(label));
    list->capacity = wanted;
  }
  label *out = &list->items[list->count++];
  size_t stages = (size_t)w->setting->stages;
  *out = *added;
  out->stage = bd_arena_grow(w->ctx->arena, added->stage, stages, stages, sizeof *added->stage);
  out->trail = add_trail(w, trail);
  if (list->count > 2 * w->effort->labels) drop_worst(w, list);
}

// The plan's seconds when `layers` layers are all there are, else what it takes at least: parts
// after `part` have a layer each.
static double seconds_of(const weaving *w, const stage_sum *stage, int layers, int part) {
  const bd_layers_setting *setting = w->setting;
  double fill = w->fill_after[layers], mean = w->rest_after[layers], share = w->work_after[layers];
  double largest = 0, sync = 0;
  for (int s = 0; s < setting->stages; s++) {
    bd_layers_criteria sum = {{stage[s].seconds}};
    double rest = bd_layers_rest(setting, &sum);
    fill += bd_layers_fill(setting, &sum);
    mean += rest;
    share += rest * setting->mode_weight[w->mode[s]];
    sync = fmax(sync, stage[s].sync);
    int chunks_left = setting->chunks - 1 - part / setting->stages + (s > part % setting->stages);
    sum.at[0] += chunks_left * w->least_layer[s];
    largest = fmax(largest, bd_layers_rest(setting, &sum));
  }
  mean = fmax(mean / setting->stages, share / w->weight);
  return fill + fmax(largest, mean) + sync;
}

// Adds the layer's option and the boundary before it to the sums; false when that cannot be.
static bool add_layer(weaving *w, const label *from, int layer, int option, label *next) {
  const bd_layers_problem *problem = w->problem;
  const bd_layers_option *o = &problem->layers[layer].options[option];
  int S = w->setting->stages, F = problem->form_count, to = next->part % S, mode = w->mode[to];
  bd_schedule_hold hold = w->setting->hold[to];
  stage_sum *at = &next->stage[to];
  double before = 0;
  if (layer && from->part == next->part)
    before = problem->cuts[layer].change[(mode * F + from->form) * F + o->form];
  if (layer && from->part != next->part) {
    int left = from->part % S;
    int hand = ((w->mode[left] * problem->mode_count + mode) * F + from->form) * F + o->form;
    before = problem->cuts[layer].receive[hand];
    next->stage[left].seconds += problem->cuts[layer].send[hand];
    if (!isfinite(next->stage[left].seconds)) return false;
    next->tape = hold.tapes * problem->cuts[layer].held_bytes[mode];
    next->part_seconds = 0;
  }
  double seconds = bd_layers_option_criteria(w->setting, layer, option)->at[0] + before;
  if (!isfinite(seconds)) return false;
  at->seconds += seconds;
  at->sync += o->sync_seconds;
  at->fixed += o->fixed_bytes;
  if (o->workspace_bytes > at->workspace) at->workspace = o->workspace_bytes;
  next->tape += hold.tapes * o->micro_batch_bytes + hold.weight_inputs * o->weight_input_bytes;
  if (next->tape > at->tape) at->tape = next->tape;
  next->part_seconds += seconds;
  next->largest = fmax(next->largest, next->part_seconds);
  next->form = o->form;
  return at->fixed + at->tape + at->workspace <=
         problem->groups[problem->modes[mode].group].cap_bytes;
}

// What the plan takes at least by the prices of layers, of which `layer` is the last so far.
static double priced_bound(const weaving *w, const label *from, int layer, int option,
                           label *next) {
  const bd_layers_prices *p = &w->prices;
  int F = p->forms, mode = w->mode[next->part % w->setting->stages];
  if (!p->ready) return 0;
  next->priced += bd_layers_priced_option(p, layer, next->part, option);
  if (layer && from->part == next->part) {
    const double *change = w->problem->cuts[layer].change;
    next->priced += change[(mode * F + from->form) * F + next->form] *
                    p->both_weight[next->part % w->setting->stages];
  } else {
    int left = layer ? w->mode[from->part % w->setting->stages] : 0;
    next->priced +=
        bd_layers_priced_entry(p, layer, next->part, left, from->form, mode, next->form);
  }
  return next->priced + p->after[bd_layers_priced_at(p, layer, next->part, mode, next->form)] -
         p->constant;
}

static void try_option(weaving *w, const label *from, int layer, int part, int option) {
  label next = *from;
  spend(w, w->setting->stages);
  memcpy(w->trial, from->stage, (size_t)w->setting->stages * sizeof *w->trial);
  next.stage = w->trial;
  next.part = part;
  if (!add_layer(w, from, layer, option, &next)) return;
  next.bound = seconds_of(w, next.stage, layer + 1, part);
  double priced = priced_bound(w, from, layer, option, &next);
  if (layer + 1 < w->problem->layer_count) next.bound = fmax(next.bound, priced);
  if (next.bound >= w->cutoff) return;
  step_trail trail = {from->trail, part, option};
  if (layer + 1 < w->problem->layer_count) {
    keep(w, &next, trail);
    return;
  }
  w->cutoff = next.bound;
  w->constructed = false;
  w->best_trail = add_trail(w, trail);
  memcpy(w->best_mode, w->mode, (size_t)w->setting->stages * sizeof *w->mode);
}

static void try_part(weaving *w, const label *from, int layer, int part) {
  int layers = w->problem->layer_count;
  const int *fixed = w->problem->stage;
  if (part >= w->parts || layers - 1 - layer < w->parts - 1 - part) return;
  if (fixed && fixed[layer] >= 0 && fixed[layer] != part % w->setting->stages) return;
  int mode = w->mode[part % w->setting->stages];
  const bd_layers_usable *usable = &w->setting->usable[layer * w->problem->mode_count + mode];
  for (int k = 0; k < usable->count; k++)
    try_option(w, from, layer, part, usable->option[k]);
}

static void run(weaving *w) {
  label start = {.trail = -1};
  start.stage = BD_NEW_ARRAY(w->ctx->arena, stage_sum, w->setting->stages);
  memset(w->next, 0, (size_t)w->parts * sizeof *w->next);
  try_part(w, &start, 0, 0);
  for (int layer = 1; layer < w->problem->layer_count && !w->stopped; layer++) {
    label_list *done = w->here;
    w->here = w->next;
    w->next = done;
    memset(w->next, 0, (size_t)w->parts * sizeof *w->next);
    for (int part = 0; part < w->parts && !w->stopped; part++) {
      drop_worst(w, &w->here[part]);
      for (int i = 0; i < w->here[part].count && !w->stopped; i++) {
        try_part(w, &w->here[part].items[i], layer, part);
        try_part(w, &w->here[part].items[i], layer, part + 1);
      }
    }
  }
}

// The least of a layer over the modes of the tuple: fill, rest, work.
static void least_of_layer(const weaving *w, int layer, double out[3]) {
  const bd_layers_setting *setting = w->setting;
  out[0] = out[1] = out[2] = INFINITY;
  for (int s = 0; s < setting->stages; s++) {
    int mode = w->mode[s];
    bool seen = false;
    for (int t = 0; t < s; t++)
      seen = seen || w->mode[t] == mode;
    const bd_layers_usable *usable = &setting->usable[layer * w->problem->mode_count + mode];
    for (int k = 0; !seen && k < usable->count; k++) {
      const bd_layers_criteria *c = bd_layers_option_criteria(setting, layer, usable->option[k]);
      double rest = bd_layers_rest(setting, c);
      out[0] = fmin(out[0], bd_layers_fill(setting, c));
      out[1] = fmin(out[1], rest);
      out[2] = fmin(out[2], setting->mode_weight[mode] * rest);
      w->least_layer[s] = fmin(w->least_layer[s], c->at[0]);
    }
    for (int t = 0; seen && t < s; t++)
      if (w->mode[t] == mode) w->least_layer[s] = w->least_layer[t];
  }
}

// Prepares the bounds of a tuple, and returns that of its plans.
static double open_tuple(weaving *w, const int *mode) {
  int layers = w->problem->layer_count, stages = w->setting->stages;
  double least[3] = {0};
  w->mode = mode;
  w->weight = 0;
  for (int s = 0; s < stages; s++) {
    w->weight += w->setting->mode_weight[mode[s]];
    w->least_layer[s] = INFINITY;
  }
  for (int l = layers - 1; l >= 0; l--) {
    bool like = l + 1 < layers && w->problem->layers[l].class == w->problem->layers[l + 1].class;
    if (!like) least_of_layer(w, l, least);
    w->fill_after[l] = w->fill_after[l + 1] + least[0];
    w->rest_after[l] = w->rest_after[l + 1] + least[1];
    w->work_after[l] = w->work_after[l + 1] + least[2];
  }
  double mean = fmax(w->rest_after[0] / stages, w->work_after[0] / w->weight), largest = 0;
  for (int s = 0; s < stages; s++) {
    bd_layers_criteria sum = {{w->setting->chunks * w->least_layer[s]}};
    largest = fmax(largest, bd_layers_rest(w->setting, &sum));
  }
  return w->fill_after[0] + fmax(mean, largest);
}

static void add_tuple(weaving *w, const int *mode) {
  spend(w, w->problem->layer_count);
  double bound = open_tuple(w, mode);
  size_t stages = (size_t)w->setting->stages;
  if (bound >= w->cutoff) return;
  if (w->tuple_count == TUPLE_LIMIT) {
    w->least = fmin(w->least, bd_layers_setting_bound(w->setting));
    return;
  }
  if (w->tuple_count == w->tuple_capacity) {
    int wanted = w->tuple_capacity ? 2 * w->tuple_capacity : 64;
    w->tuples = bd_arena_grow(w->ctx->arena, w->tuples, (size_t)w->tuple_count, (size_t)wanted,
                              sizeof *w->tuples);
    w->tuple_capacity = wanted;
  }
  int *copy = bd_arena_grow(w->ctx->arena, mode, stages, stages, sizeof *mode);
  w->tuples[w->tuple_count] = (tuple){bound, w->tuple_count, copy};
  w->tuple_count++;
}

// Modes of the stages from `stage` on, as far as there are devices.
static void add_tuples(weaving *w, int *mode, int stage, int64_t *used) {
  if (stage == w->setting->stages) {
    add_tuple(w, mode);
    return;
  }
  for (int n = 0; n < w->problem->mode_count && w->tuple_count < TUPLE_LIMIT && !w->stopped; n++) {
    const bd_layers_mode *at = &w->problem->modes[n];
    spend(w, 1);
    mode[stage] = n;
    used[at->group] += at->devices;
    if (used[at->group] <= w->problem->groups[at->group].count)
      add_tuples(w, mode, stage + 1, used);
    used[at->group] -= at->devices;
  }
}

static int by_bound(const void *left, const void *right) {
  const tuple *a = left, *b = right;
  if (a->bound != b->bound) return a->bound < b->bound ? -1 : 1;
  return a->number < b->number ? -1 : a->number > b->number;
}

static void visit(void *user, const bd_priced_path *path) {
  bd_layers_repair_path(user, path);
}

// Moves the prices of a tuple, and keeps the best plan near them; `moves` of annealing.
static void price_tuple(weaving *w, tuple *at, int rounds, int moves) {
  bd_owned held;
  bd_arena *kept = w->ctx->arena, *arena = bd_ctx_open_arena(w->ctx, &held);
  bd_layers_repair repair = {
      .setting = w->setting, .prices = &w->prices, .effort = w->effort, .cutoff = INFINITY};
  w->ctx->arena = arena;
  bd_layers_repair_open(w->ctx, &repair);
  bd_layers_prices_restart(&w->prices, at->mode);
  bd_layers_prices_climb(w->ctx, &w->prices, w->cutoff, rounds, visit, &repair);
  at->bound = fmax(at->bound, w->prices.bound);
  if (moves && at->bound < w->cutoff) bd_layers_repair_anneal(w->ctx, &repair, moves);
  w->ctx->arena = kept;
  if (repair.cutoff < w->cutoff) {
    w->cutoff = repair.cutoff;
    w->constructed = true;
    bd_layers_plan_copy(&repair.best, w->problem->layer_count, &w->plan);
  }
  bd_ctx_close_arena(w->ctx, &held);
}

enum { FIRST_ROUNDS = 25, ROUNDS = 300, MOVES = 100000 };

// A first bound of every tuple, with half of the work at most.
static void price_tuples(weaving *w) {
  bd_layers_meter *meter = w->effort->meter;
  int64_t most = meter->used + (w->effort->most_work - meter->used) / 2;
  w->prices =
      (bd_layers_prices){.setting = w->setting, .meter = meter, .most_work = w->effort->most_work};
  if (!w->effort->thorough || !w->tuple_count) return;
  w->prices.mode = w->tuples[0].mode;
  bd_layers_prices_open(w->ctx, &w->prices);
  w->plan = bd_layers_plan_new(w->ctx, w->setting);
  for (int i = 0; i < w->tuple_count && w->tuple_count > 1; i++) {
    if (!bd_layers_spend(meter, 0, most)) return;
    if (w->tuples[i].bound < w->cutoff) price_tuple(w, &w->tuples[i], FIRST_ROUNDS, 0);
  }
}

static void run_tuple(weaving *w, tuple *at) {
  w->dropped = INFINITY;
  if (w->prices.to_go) price_tuple(w, at, ROUNDS, MOVES);
  if (at->bound >= w->cutoff) return;
  open_tuple(w, at->mode);
  run(w);
  if (!w->stopped) at->bound = fmax(at->bound, w->dropped);
}

static void run_tuples(weaving *w) {
  int64_t used[BD_LAYERS_MAX_GROUPS] = {0};
  int *mode = BD_NEW_ARRAY(w->ctx->arena, int, w->setting->stages);
  add_tuples(w, mode, 0, used);
  w->enumerated = !w->stopped;
  if (w->tuple_count >= TUPLE_LIMIT) w->least = fmin(w->least, bd_layers_setting_bound(w->setting));
  price_tuples(w);
  if (w->tuple_count) qsort(w->tuples, (size_t)w->tuple_count, sizeof *w->tuples, by_bound);
  // As many tuples as labels of each are looked at.
  for (int i = 0; i < w->tuple_count; i++) {
    tuple *at = &w->tuples[i];
    if (at->bound < w->cutoff && i < w->effort->labels && !w->stopped) run_tuple(w, at);
    w->least = fmin(w->least, at->bound);
  }
}

static void trace(const weaving *w, bd_layers_plan *out) {
  int layers = w->problem->layer_count;
  *out = bd_layers_plan_new(w->ctx, w->setting);
  memcpy(out->mode, w->best_mode, (size_t)w->setting->stages * sizeof *out->mode);
  for (int at = w->best_trail, i = layers - 1; i >= 0; at = w->trails[at].before, i--) {
    out->part[i] = w->trails[at].part;
    out->option[i] = w->trails[at].option;
  }
}

bd_status bd_layers_interleave(bd_ctx *ctx, const bd_layers_setting *setting,
                               const bd_layers_effort *effort, double cutoff,
                               bd_layers_outcome *out) {
  weaving w = {.ctx = ctx, .setting = setting, .problem = setting->problem, .effort = effort};
  int layers = w.problem->layer_count;
  w.parts = setting->stages * setting->chunks;
  w.cutoff = cutoff;
  w.least = INFINITY;
  w.best_trail = -1;
  w.here = BD_NEW_ARRAY(ctx->arena, label_list, w.parts);
  w.next = BD_NEW_ARRAY(ctx->arena, label_list, w.parts);
  w.trial = BD_NEW_ARRAY(ctx->arena, stage_sum, setting->stages);
  w.best_mode = BD_NEW_ARRAY(ctx->arena, int, setting->stages);
  w.least_layer = BD_NEW_ARRAY(ctx->arena, double, setting->stages);
  w.fill_after = BD_NEW_ARRAY(ctx->arena, double, layers + 1);
  w.rest_after = BD_NEW_ARRAY(ctx->arena, double, layers + 1);
  w.work_after = BD_NEW_ARRAY(ctx->arena, double, layers + 1);
  *out = (bd_layers_outcome){.seconds = INFINITY};
  run_tuples(&w);
  double least = w.enumerated ? w.least : bd_layers_setting_bound(setting);
  out->bound = fmin(fmin(cutoff, w.cutoff), least);
  out->cut = w.stopped;
  out->found = w.cutoff < cutoff;
  if (!out->found) return BD_OK;
  out->seconds = w.cutoff;
  if (w.constructed)
    out->plan = w.plan;
  else
    trace(&w, &out->plan);
  return BD_OK;
}
