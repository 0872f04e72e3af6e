#include "planner/graph/weave.h"
#include "planner/graph/plan.h"
#include "planner/graph/priced_path.h"
#include "planner/graph/weights.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct bd_weave_stage {
  double seconds, sync;
  int64_t fixed, workspace;
  int64_t tape; // of its largest chunk so far
};

// The layers so far.
typedef struct label {
  int part, form;      // of the last layer
  int64_t tape;        // of its part
  double part_seconds; // of its part
  double largest;      // part so far
  double priced;       // the layers so far under the prices
  double bound;        // no plan that goes on from here takes less
  int trail;
  struct bd_weave_stage *stage; // per stage
} label;

struct bd_weave_list {
  int count, capacity;
  label *items;
};

struct bd_weave_trail {
  int before, part, option;
};

static int compare(const void *left, const void *right) {
  const label *a = left, *b = right;
  if (a->bound != b->bound) return a->bound < b->bound ? -1 : 1;
  if (a->largest != b->largest) return a->largest < b->largest ? -1 : 1;
  return a->trail < b->trail ? -1 : a->trail > b->trail;
}

static void drop_worst(bd_weaving *w, struct bd_weave_list *list) {
  if (list->count <= w->effort->labels) return;
  qsort(list->items, (size_t)list->count, sizeof *list->items, compare);
  w->dropped = fmin(w->dropped, list->items[w->effort->labels].bound);
  list->count = w->effort->labels;
}

// Of labels with the same last part.
static bool beats(const bd_weaving *w, const label *a, const label *b) {
  double slack = w->setting->tolerance;
  if (a->form != b->form || a->tape > b->tape) return false;
  for (int s = 0; s < w->setting->stages; s++) {
    const struct bd_weave_stage *p = &a->stage[s], *q = &b->stage[s];
    if (p->seconds > q->seconds + slack || p->sync > q->sync + slack || p->fixed > q->fixed ||
        p->tape > q->tape || p->workspace > q->workspace)
      return false;
  }
  return true;
}

static int add_trail(bd_weaving *w, struct bd_weave_trail trail) {
  if (w->trail_count == w->trail_capacity) {
    int wanted = w->trail_capacity ? 2 * w->trail_capacity : 1024;
    w->trails = bd_arena_grow(w->ctx->arena, w->trails, (size_t)w->trail_count, (size_t)wanted,
                              sizeof *w->trails);
    w->trail_capacity = wanted;
  }
  w->trails[w->trail_count] = trail;
  return w->trail_count++;
}

void bd_weaving_spend(bd_weaving *w, int64_t work) {
  if (!bd_layers_spend(w->effort->meter, work, w->effort->most_work)) w->stopped = true;
}

static void keep(bd_weaving *w, const label *added, struct bd_weave_trail trail) {
  struct bd_weave_list *list = &w->next[added->part];
  bd_weaving_spend(w, list->count);
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
static double seconds_of(const bd_weaving *w, const struct bd_weave_stage *stage, int layers,
                         int part) {
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
static bool add_layer(bd_weaving *w, const label *from, int layer, int option, label *next) {
  const bd_layers_problem *problem = w->problem;
  const bd_layers_option *o = &problem->layers[layer].options[option];
  int S = w->setting->stages, to = next->part % S, mode = w->mode[to];
  struct bd_weave_stage *at = &next->stage[to];
  double before = 0;
  if (layer && from->part == next->part)
    before = problem->cuts[layer].change[bd_layers_change_at(problem, mode, from->form, o->form)];
  if (layer && from->part != next->part) {
    int left = from->part % S;
    int hand = bd_layers_hand_at(problem, w->mode[left], from->form, mode, o->form);
    before = problem->cuts[layer].receive[hand];
    next->stage[left].seconds += problem->cuts[layer].send[hand];
    if (!isfinite(next->stage[left].seconds)) return false;
    next->tape = w->setting->hold[to].tapes * problem->cuts[layer].held_bytes[mode];
    next->part_seconds = 0;
  }
  double seconds = bd_layers_option_criteria(w->setting, layer, option)->at[0] + before;
  if (!isfinite(seconds)) return false;
  at->seconds += seconds;
  at->sync += o->sync_seconds;
  at->fixed += o->fixed_bytes;
  if (o->workspace_bytes > at->workspace) at->workspace = o->workspace_bytes;
  next->tape += bd_layers_option_held(w->setting, to, o);
  if (next->tape > at->tape) at->tape = next->tape;
  next->part_seconds += seconds;
  next->largest = fmax(next->largest, next->part_seconds);
  next->form = o->form;
  return at->fixed + at->tape + at->workspace <=
         problem->groups[problem->modes[mode].group].cap_bytes;
}

// What the plan takes at least by the prices of layers, of which `layer` is the last so far.
static double priced_bound(const bd_weaving *w, const label *from, int layer, int option,
                           label *next) {
  const bd_layers_prices *p = w->prices;
  int mode = w->mode[next->part % w->setting->stages];
  if (!p->ready) return 0;
  next->priced += bd_layers_priced_option(p, layer, next->part, option);
  if (layer && from->part == next->part) {
    const double *change = w->problem->cuts[layer].change;
    next->priced += change[bd_layers_change_at(w->problem, mode, from->form, next->form)] *
                    p->both_weight[next->part % w->setting->stages];
  } else {
    int left = layer ? w->mode[from->part % w->setting->stages] : 0;
    next->priced +=
        bd_layers_priced_entry(p, layer, next->part, left, from->form, mode, next->form);
  }
  return next->priced + p->after[bd_layers_priced_at(p, layer, next->part, mode, next->form)] -
         p->constant;
}

static void try_option(bd_weaving *w, const label *from, int layer, int part, int option) {
  label next = *from;
  bd_weaving_spend(w, w->setting->stages);
  memcpy(w->trial, from->stage, (size_t)w->setting->stages * sizeof *w->trial);
  next.stage = w->trial;
  next.part = part;
  if (!add_layer(w, from, layer, option, &next)) return;
  next.bound = seconds_of(w, next.stage, layer + 1, part);
  double priced = priced_bound(w, from, layer, option, &next);
  if (layer + 1 < w->problem->layer_count) next.bound = fmax(next.bound, priced);
  if (next.bound >= w->cutoff) return;
  struct bd_weave_trail trail = {from->trail, part, option};
  if (layer + 1 < w->problem->layer_count) {
    keep(w, &next, trail);
    return;
  }
  w->cutoff = next.bound;
  w->best_trail = add_trail(w, trail);
  memcpy(w->best_mode, w->mode, (size_t)w->setting->stages * sizeof *w->mode);
}

static void try_part(bd_weaving *w, const label *from, int layer, int part) {
  int layers = w->problem->layer_count;
  const int *fixed = w->problem->stage;
  if (part >= w->parts || layers - 1 - layer < w->parts - 1 - part) return;
  if (fixed && fixed[layer] >= 0 && fixed[layer] != part % w->setting->stages) return;
  int mode = w->mode[part % w->setting->stages];
  const bd_layers_usable *usable = bd_layers_usable_of(w->setting, layer, mode);
  for (int k = 0; k < usable->count; k++)
    try_option(w, from, layer, part, usable->option[k]);
}

// The least of a layer over the modes at hand: fill, rest, work.
static void least_of_layer(const bd_weaving *w, int layer, double out[3]) {
  const bd_layers_setting *setting = w->setting;
  out[0] = out[1] = out[2] = INFINITY;
  for (int s = 0; s < setting->stages; s++) {
    int mode = w->mode[s];
    bool seen = false;
    for (int t = 0; t < s; t++)
      seen = seen || w->mode[t] == mode;
    const bd_layers_usable *usable = bd_layers_usable_of(setting, layer, mode);
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

double bd_weaving_take(bd_weaving *w, const int *mode) {
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

void bd_weaving_run(bd_weaving *w) {
  w->dropped = INFINITY;
  label start = {.trail = -1};
  start.stage = BD_NEW_ARRAY(w->ctx->arena, struct bd_weave_stage, w->setting->stages);
  memset(w->next, 0, (size_t)w->parts * sizeof *w->next);
  try_part(w, &start, 0, 0);
  for (int layer = 1; layer < w->problem->layer_count && !w->stopped; layer++) {
    struct bd_weave_list *done = w->here;
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

void bd_weaving_trace(const bd_weaving *w, bd_layers_plan *out) {
  int layers = w->problem->layer_count;
  *out = bd_layers_plan_new(w->ctx, w->setting);
  memcpy(out->mode, w->best_mode, (size_t)w->setting->stages * sizeof *out->mode);
  for (int at = w->best_trail, i = layers - 1; i >= 0; at = w->trails[at].before, i--) {
    out->part[i] = w->trails[at].part;
    out->option[i] = w->trails[at].option;
  }
}

void bd_weaving_open(bd_ctx *ctx, const bd_layers_setting *setting, const bd_layers_effort *effort,
                     double cutoff, const bd_layers_prices *prices, bd_weaving *out) {
  *out = (bd_weaving){.ctx = ctx,
                      .setting = setting,
                      .problem = setting->problem,
                      .effort = effort,
                      .parts = setting->stages * setting->chunks,
                      .cutoff = cutoff,
                      .prices = prices,
                      .best_trail = -1};
  int layers = setting->problem->layer_count;
  out->here = BD_NEW_ARRAY(ctx->arena, struct bd_weave_list, out->parts);
  out->next = BD_NEW_ARRAY(ctx->arena, struct bd_weave_list, out->parts);
  out->trial = BD_NEW_ARRAY(ctx->arena, struct bd_weave_stage, setting->stages);
  out->best_mode = BD_NEW_ARRAY(ctx->arena, int, setting->stages);
  out->least_layer = BD_NEW_ARRAY(ctx->arena, double, setting->stages);
  out->fill_after = BD_NEW_ARRAY(ctx->arena, double, layers + 1);
  out->rest_after = BD_NEW_ARRAY(ctx->arena, double, layers + 1);
  out->work_after = BD_NEW_ARRAY(ctx->arena, double, layers + 1);
}
