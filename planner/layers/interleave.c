#include "planner/layers/interleave.h"
#include "planner/layers/devices.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct stage_sum {
  double seconds, sync;
  int64_t fixed, workspace;
  int64_t tape; // of its largest chunk so far
  int mode;     // -1: not begun
} stage_sum;

// The layers so far.
typedef struct label {
  int part, form;      // of the last layer
  int64_t tape;        // of its part
  double part_seconds; // of its part
  double largest;      // part so far
  double bound;        // no plan that goes on from here takes less
  int trail;
  stage_sum *stage; // per stage
} label;

typedef struct label_list {
  int count, capacity;
  label *items;
} label_list;

typedef struct step_trail {
  int before, part, option, mode;
} step_trail;

typedef struct weaving {
  bd_ctx *ctx;
  const bd_layers_setting *setting;
  const bd_layers_problem *problem;
  const bd_layers_effort *effort;
  int parts;
  double cutoff, dropped;
  bool stopped;
  label_list *here, *next; // per part
  stage_sum *trial;        // of the label that is tried
  int trail_count, trail_capacity;
  step_trail *trails;
  int best_trail;
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
    if (p->mode != q->mode || p->seconds > q->seconds + slack || p->sync > q->sync + slack ||
        p->fixed > q->fixed || p->tape > q->tape || p->workspace > q->workspace)
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

static void keep(weaving *w, const label *added, step_trail trail) {
  label_list *list = &w->next[added->part];
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

// The plan's seconds when `layers` layers are all there are, else what it takes at least.
static double seconds_of(const weaving *w, const stage_sum *stage, int layers) {
  const bd_layers_setting *setting = w->setting;
  int all = w->problem->layer_count;
  double fill = setting->fill_before[all] - setting->fill_before[layers];
  double mean = setting->rest_before[all] - setting->rest_before[layers], largest = 0, sync = 0;
  double share = setting->work_before[all] - setting->work_before[layers], weight = 0;
  for (int s = 0; s < setting->stages; s++) {
    bd_layers_criteria sum = {{stage[s].seconds}};
    double rest = bd_layers_rest(setting, &sum);
    fill += bd_layers_fill(setting, &sum);
    mean += rest;
    largest = fmax(largest, rest);
    sync = fmax(sync, stage[s].sync);
    if (stage[s].mode >= 0) share += rest * setting->mode_weight[stage[s].mode];
    weight += stage[s].mode >= 0 ? setting->mode_weight[stage[s].mode] : setting->capacity;
  }
  mean = fmax(mean / setting->stages, share / fmin(weight, setting->capacity));
  return fill + fmax(largest, mean) + sync;
}

static bool devices_suffice(const weaving *w, const stage_sum *stage) {
  int64_t used[BD_LAYERS_MAX_GROUPS] = {0};
  for (int s = 0; s < w->setting->stages; s++) {
    if (stage[s].mode < 0) continue;
    const bd_layers_mode *mode = &w->problem->modes[stage[s].mode];
    used[mode->group] += mode->devices;
    if (used[mode->group] > w->problem->groups[mode->group].count) return false;
  }
  return true;
}

// Adds the layer's option and the boundary before it to the sums; false when that cannot be.
static bool add_layer(weaving *w, const label *from, int layer, int option, label *next) {
  const bd_layers_problem *problem = w->problem;
  const bd_layers_option *o = &problem->layers[layer].options[option];
  int S = w->setting->stages, F = problem->form_count, to = next->part % S;
  bd_schedule_hold hold = w->setting->hold[to];
  stage_sum *at = &next->stage[to];
  double before = 0;
  if (layer && from->part == next->part)
    before = problem->cuts[layer].change[(at->mode * F + from->form) * F + o->form];
  if (layer && from->part != next->part) {
    stage_sum *left = &next->stage[from->part % S];
    int hand = ((left->mode * problem->mode_count + at->mode) * F + from->form) * F + o->form;
    before = problem->cuts[layer].receive[hand];
    left->seconds += problem->cuts[layer].send[hand];
    if (!isfinite(left->seconds)) return false;
    next->tape = hold.tapes * problem->cuts[layer].held_bytes[at->mode];
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
         problem->groups[problem->modes[at->mode].group].cap_bytes;
}

static void try_option(weaving *w, const label *from, int layer, int part, int mode, int option) {
  size_t bytes = (size_t)w->setting->stages * sizeof *w->trial;
  label next = *from;
  memcpy(w->trial, from->stage, bytes);
  next.stage = w->trial;
  next.part = part;
  next.stage[part % w->setting->stages].mode = mode;
  if (!devices_suffice(w, next.stage) || !add_layer(w, from, layer, option, &next)) return;
  next.bound = seconds_of(w, next.stage, layer + 1);
  if (next.bound >= w->cutoff) return;
  step_trail trail = {from->trail, part, option, mode};
  if (layer + 1 < w->problem->layer_count) {
    keep(w, &next, trail);
    return;
  }
  w->cutoff = next.bound;
  w->best_trail = add_trail(w, trail);
}

static void try_part(weaving *w, const label *from, int layer, int part) {
  int stage = part % w->setting->stages, layers = w->problem->layer_count;
  if (part >= w->parts || layers - 1 - layer < w->parts - 1 - part) return;
  for (int mode = 0; mode < w->problem->mode_count; mode++) {
    if (from->stage[stage].mode >= 0 && from->stage[stage].mode != mode) continue;
    const bd_layers_usable *usable = &w->setting->usable[layer * w->problem->mode_count + mode];
    for (int k = 0; k < usable->count; k++)
      try_option(w, from, layer, part, mode, usable->option[k]);
  }
}

static void run(weaving *w) {
  size_t stages = (size_t)w->setting->stages;
  label start = {.trail = -1, .stage = BD_NEW_ARRAY(w->ctx->arena, stage_sum, stages)};
  for (size_t s = 0; s < stages; s++)
    start.stage[s].mode = -1;
  try_part(w, &start, 0, 0);
  for (int layer = 1; layer < w->problem->layer_count && !w->stopped; layer++) {
    label_list *done = w->here;
    w->here = w->next;
    w->next = done;
    memset(w->next, 0, (size_t)w->parts * sizeof *w->next);
    for (int part = 0; part < w->parts; part++) {
      drop_worst(w, &w->here[part]);
      for (int i = 0; i < w->here[part].count; i++) {
        try_part(w, &w->here[part].items[i], layer, part);
        try_part(w, &w->here[part].items[i], layer, part + 1);
      }
    }
    w->stopped = bd_layers_now_seconds() > w->effort->deadline;
  }
}

static void trace(const weaving *w, bd_layers_plan *out) {
  const bd_layers_setting *setting = w->setting;
  int layers = w->problem->layer_count;
  *out = (bd_layers_plan){.schedule = setting->schedule,
                          .micro_batches = setting->micro_batches,
                          .stages = setting->stages,
                          .chunks = setting->chunks,
                          .mode = BD_NEW_ARRAY(w->ctx->arena, int, setting->stages),
                          .part = BD_NEW_ARRAY(w->ctx->arena, int, layers),
                          .option = BD_NEW_ARRAY(w->ctx->arena, int, layers)};
  for (int at = w->best_trail, i = layers - 1; i >= 0; at = w->trails[at].before, i--) {
    const step_trail *step = &w->trails[at];
    out->part[i] = step->part;
    out->option[i] = step->option;
    out->mode[step->part % setting->stages] = step->mode;
  }
}

bd_status bd_layers_interleave(bd_ctx *ctx, const bd_layers_setting *setting,
                               const bd_layers_effort *effort, double cutoff,
                               bd_layers_outcome *out) {
  weaving w = {.ctx = ctx, .setting = setting, .problem = setting->problem, .effort = effort};
  w.parts = setting->stages * setting->chunks;
  w.cutoff = cutoff;
  w.dropped = INFINITY;
  w.best_trail = -1;
  w.here = BD_NEW_ARRAY(ctx->arena, label_list, w.parts);
  w.next = BD_NEW_ARRAY(ctx->arena, label_list, w.parts);
  w.trial = BD_NEW_ARRAY(ctx->arena, stage_sum, setting->stages);
  *out = (bd_layers_outcome){.seconds = INFINITY};
  run(&w);
  double least = w.stopped ? bd_layers_setting_bound(setting) : w.dropped;
  out->bound = fmin(fmin(cutoff, w.cutoff), least);
  out->found = w.best_trail >= 0;
  if (!out->found) return BD_OK;
  out->seconds = w.cutoff;
  trace(&w, &out->plan);
  return BD_OK;
}
