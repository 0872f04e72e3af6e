#include "planner/graph/chain.h"
#include "planner/graph/ahead.h"
#include "planner/graph/plan.h"
#include "planner/graph/sketch.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STATE_LIMIT = 1 << 14, CELL_LIMIT = 1 << 22 };

// The stages so far, and how the next one begins.
typedef struct label {
  double fill, rest, second, sync; // of the stages so far: sum, maxima
  double weight;                   // of the stages so far
  double receive;                  // seconds of the next stage for what it is sent
  double bound;                    // no plan that goes on from here takes less
  int trail;
} label;

typedef struct label_list {
  int count, capacity;
  label *items;
} label_list;

typedef struct chain_trail {
  int before, mode, first, ways; // ways: a trail of the front
} chain_trail;

typedef struct chain {
  bd_ctx *ctx;
  const bd_layers_setting *setting;
  const bd_layers_problem *problem;
  const bd_layers_effort *effort;
  bd_fronts fronts;
  bd_devices devices;
  int forms, modes;
  double cutoff, dropped; // dropped: the least bound of labels that were left out
  bool dropping, stopped;
  bd_ahead ahead;
  label_list *here, *next; // [layer][state][mode][form]
  int trail_count, trail_capacity;
  chain_trail *trails;
  int best_trail;
} chain;

static size_t list_index(const chain *c, int layer, int state, int mode, int form) {
  size_t at = (size_t)layer * (size_t)c->devices.states + (size_t)state;
  return (at * (size_t)c->modes + (size_t)mode) * (size_t)c->forms + (size_t)form;
}

static void spend(chain *c, int64_t work) {
  if (!bd_layers_spend(c->effort->meter, work + 1, c->effort->most_work)) c->stopped = true;
}

// A plan takes the sum of all fill, and of rest at least the largest so far, the largest ahead, the
// mean over all stages, and the mean over their weights.
static double lower_bound(const chain *c, const label *l, int stage, const bd_ahead_least *ahead) {
  const bd_layers_setting *setting = c->setting;
  bd_layers_criteria receive = bd_layers_criteria_both(setting, l->receive);
  double fill = l->fill + bd_layers_fill(setting, &receive);
  double largest = fill + ahead->fill + fmax(l->rest, ahead->rest) + fmax(l->second, ahead->second);
  double rest = l->rest + l->second;
  double mean = fill + rest * stage / setting->stages + ahead->mean;
  double share = fill + rest * l->weight / setting->capacity + ahead->share;
  return fmax(largest, fmax(mean, share)) + l->sync;
}

static int by_bound(const void *left, const void *right) {
  const label *a = left, *b = right;
  if (a->bound != b->bound) return a->bound < b->bound ? -1 : 1;
  return a->trail < b->trail ? -1 : a->trail > b->trail;
}

static bool beats(const chain *c, const label *a, const label *b) {
  double slack = c->setting->tolerance;
  return a->fill <= b->fill + slack && a->rest <= b->rest + slack &&
         a->second <= b->second + slack && a->sync <= b->sync + slack &&
         a->receive <= b->receive + slack;
}

static void drop_worst(chain *c, label_list *list) {
  qsort(list->items, (size_t)list->count, sizeof *list->items, by_bound);
  c->dropped = fmin(c->dropped, list->items[c->effort->labels].bound);
  list->count = c->effort->labels;
  c->dropping = true;
}

static int add_trail(chain *c, chain_trail trail) {
  if (c->trail_count == c->trail_capacity) {
    int wanted = c->trail_capacity ? 2 * c->trail_capacity : 1024;
    c->trails = bd_arena_grow(c->ctx->arena, c->trails, (size_t)c->trail_count, (size_t)wanted,
                              sizeof *c->trails);
    c->trail_capacity = wanted;
  }
  c->trails[c->trail_count] = trail;
  return c->trail_count++;
}

static void keep(chain *c, label_list *list, const label *added, const chain_trail *trail) {
  spend(c, list->count);
  for (int i = 0; i < list->count; i++)
    if (beats(c, &list->items[i], added)) return;
  int kept = 0;
  for (int i = 0; i < list->count; i++)
    if (!beats(c, added, &list->items[i])) list->items[kept++] = list->items[i];
  list->count = kept;
  if (kept == list->capacity) {
    int wanted = kept ? 2 * kept : 4;
    list->items =
        bd_arena_grow(c->ctx->arena, list->items, (size_t)kept, (size_t)wanted, sizeof(label));
    list->capacity = wanted;
  }
  list->items[list->count] = *added;
  list->items[list->count++].trail = add_trail(c, *trail);
  if (list->count > 2 * c->effort->labels) drop_worst(c, list);
}

// Where a stage stands that a label begins.
typedef struct place {
  int stage, first, state, mode, form;
} place;

static label close_stage(const chain *c, int mode, const label *from, const bd_front_item *way,
                         double hand_seconds) {
  bd_layers_criteria sum = bd_layers_criteria_both(c->setting, hand_seconds);
  bd_layers_criteria_add(c->setting, &sum, &way->criteria);
  return (label){.fill = from->fill + bd_layers_fill(c->setting, &sum),
                 .rest = fmax(from->rest, bd_layers_rest(c->setting, &sum)),
                 .second = fmax(from->second, bd_layers_rest_second(c->setting, &sum)),
                 .sync = fmax(from->sync, way->sync),
                 .weight = from->weight + c->setting->mode_weight[mode]};
}

static void finish(chain *c, const place *at, const label *from, int leave) {
  int layers = c->problem->layer_count;
  const bd_front *front =
      bd_fronts_get(&c->fronts, at->stage, at->mode, at->first, layers, at->form, leave);
  for (int i = 0; i < front->count; i++) {
    label whole = close_stage(c, at->mode, from, &front->items[i], from->receive);
    double seconds = whole.fill + whole.rest + whole.second + whole.sync;
    if (seconds >= c->cutoff) continue;
    c->cutoff = seconds;
    c->best_trail =
        add_trail(c, (chain_trail){from->trail, at->mode, at->first, front->items[i].trail});
  }
}

static void hand_over(chain *c, const place *at, const label *from, int end, int leave,
                      const bd_front *front, int next_mode) {
  int state = bd_devices_take(&c->devices, at->state, next_mode);
  const bd_layers_cut *cut = &c->problem->cuts[end];
  for (int form = 0; state >= 0 && form < c->forms && !c->stopped; form++) {
    int hand = bd_layers_hand_at(c->problem, at->mode, leave, next_mode, form);
    const bd_ahead_least *ahead = bd_ahead_of(&c->ahead, at->stage + 1, end, next_mode, form);
    if (!isfinite(cut->send[hand]) || !isfinite(cut->receive[hand]) || !isfinite(ahead->fill))
      continue;
    label_list *list = &c->next[list_index(c, end, state, next_mode, form)];
    spend(c, front->count);
    for (int i = 0; i < front->count; i++) {
      label next =
          close_stage(c, at->mode, from, &front->items[i], from->receive + cut->send[hand]);
      next.receive = cut->receive[hand];
      next.bound = lower_bound(c, &next, at->stage + 1, ahead);
      if (next.bound >= c->cutoff) continue;
      chain_trail trail = {from->trail, at->mode, at->first, front->items[i].trail};
      keep(c, list, &next, &trail);
    }
  }
}

// Whether no way of the interval leads to a wanted plan, even if nothing came next.
static bool is_hopeless(const chain *c, const place *at, const label *from, int end,
                        const bd_front *front) {
  const bd_ahead_least nothing = {0};
  label probe = close_stage(c, at->mode, from, &front->items[0], from->receive);
  // Only with one criterion is the way of the least fill that of the least rest.
  if (c->setting->criteria > 1) {
    probe.rest = from->rest;
    probe.second = from->second;
  }
  probe.sync = from->sync;
  return lower_bound(c, &probe, at->stage + 1, &nothing) >= c->cutoff;
}

static void expand(chain *c, const place *at, const label *from) {
  bool last = at->stage == c->setting->stages - 1;
  if (from->bound >= c->cutoff || c->stopped) return;
  for (int leave = 0; last && leave < c->forms; leave++)
    finish(c, at, from, leave);
  for (int end = bd_layers_first_end(c->setting, at->stage, at->first);
       !last && end <= bd_layers_last_end(c->setting, at->stage); end++)
    for (int leave = 0; leave < c->forms; leave++) {
      const bd_front *front =
          bd_fronts_get(&c->fronts, at->stage, at->mode, at->first, end, at->form, leave);
      if (!front->count || is_hopeless(c, at, from, end, front)) continue;
      for (int next = 0; next < c->modes; next++)
        hand_over(c, at, from, end, leave, front, next);
    }
}

// Leaves out labels that one with at least as many devices left beats.
static void drop_beaten(chain *c, int first, int state, int mode, int form, label_list *list) {
  if (c->devices.kind != BD_DEVICES_EXACT) return;
  for (int other = 0; other < state && list->count; other++) {
    const label_list *by = &c->here[list_index(c, first, other, mode, form)];
    if (!by->count || !bd_devices_spare(&c->devices, other, state)) continue;
    int kept = 0;
    for (int i = 0; i < list->count; i++) {
      bool beaten = false;
      for (int k = 0; k < by->count && !beaten; k++)
        beaten = beats(c, &by->items[k], &list->items[i]);
      if (!beaten) list->items[kept++] = list->items[i];
    }
    list->count = kept;
  }
}

static void expand_stage(chain *c, int stage) {
  for (int first = 0; first < c->problem->layer_count; first++) {
    for (int state = 0; state < c->devices.states; state++)
      for (int mode = 0; mode < c->modes; mode++)
        for (int form = 0; form < c->forms; form++) {
          label_list *list = &c->here[list_index(c, first, state, mode, form)];
          drop_beaten(c, first, state, mode, form, list);
          if (list->count > c->effort->labels) drop_worst(c, list);
          place at = {stage, first, state, mode, form};
          for (int i = 0; i < list->count; i++)
            expand(c, &at, &list->items[i]);
        }
    if (c->stopped) return;
  }
}

static void begin(chain *c) {
  for (int mode = 0; mode < c->modes; mode++) {
    int state = bd_devices_take(&c->devices, 0, mode);
    for (int form = 0; state >= 0 && form < c->forms; form++) {
      label start = {.trail = -1};
      const bd_ahead_least *ahead = bd_ahead_of(&c->ahead, 0, 0, mode, form);
      start.bound = lower_bound(c, &start, 0, ahead);
      label_list *list = &c->here[list_index(c, 0, state, mode, form)];
      if (!isfinite(ahead->fill) || start.bound >= c->cutoff) continue;
      list->items = BD_NEW(c->ctx->arena, label);
      list->items[0] = start;
      list->count = list->capacity = 1;
    }
  }
}

static void trace(const chain *c, bd_layers_plan *out) {
  const bd_layers_setting *setting = c->setting;
  int end = c->problem->layer_count;
  *out = bd_layers_plan_new(c->ctx, setting);
  int stage = setting->stages - 1;
  for (int at = c->best_trail; at >= 0; at = c->trails[at].before, stage--) {
    const chain_trail *trail = &c->trails[at];
    out->mode[stage] = trail->mode;
    bd_fronts_trace(&c->fronts, trail->ways, end - trail->first, &out->option[trail->first]);
    for (int i = trail->first; i < end; i++)
      out->part[i] = stage;
    end = trail->first;
  }
}

static void run(chain *c) {
  size_t lists = list_index(c, c->problem->layer_count + 1, 0, 0, 0);
  c->here = bd_arena_array(c->ctx->arena, lists, sizeof *c->here);
  c->next = bd_arena_array(c->ctx->arena, lists, sizeof *c->next);
  begin(c);
  for (int s = 0; s < c->setting->stages && !c->stopped; s++) {
    spend(c, (int64_t)lists);
    expand_stage(c, s);
    label_list *done = c->here;
    c->here = c->next;
    c->next = done;
    memset(c->next, 0, lists * sizeof *c->next);
  }
}

// Nothing that was left out is better than this.
static double bound_of(const chain *c, double cutoff, bool bound_only) {
  double least = fmin(cutoff, c->cutoff);
  if (c->stopped || (c->fronts.thinned && !bound_only) || c->devices.kind == BD_DEVICES_ORDERED)
    return fmin(least, bd_layers_setting_bound(c->setting));
  return fmin(least, c->dropped);
}

bd_status bd_layers_chain(bd_ctx *ctx, const bd_layers_setting *setting,
                          const bd_layers_effort *effort, double cutoff, bool bound_only,
                          bd_layers_outcome *out) {
  const bd_layers_problem *problem = setting->problem;
  chain c = {.ctx = ctx, .setting = setting, .problem = problem, .effort = effort};
  c.forms = problem->form_count;
  c.modes = problem->mode_count;
  c.cutoff = cutoff;
  c.dropped = INFINITY;
  c.best_trail = -1;
  *out = (bd_layers_outcome){.seconds = INFINITY};
  int cells = (problem->layer_count + 1) * c.modes * c.forms;
  bd_devices_open(problem, bound_only ? BD_DEVICES_IGNORED : BD_DEVICES_ORDERED,
                  cells > CELL_LIMIT / STATE_LIMIT ? CELL_LIMIT / cells + 1 : STATE_LIMIT,
                  &c.devices);
  c.fronts = (bd_fronts){.setting = setting,
                         .thinning = bound_only ? BD_FRONT_MERGE : BD_FRONT_DROP,
                         .limit = effort->ways,
                         .cutoff = cutoff,
                         .meter = effort->meter,
                         .most_work = effort->most_work,
                         .windows = NULL};
  if (effort->thorough) c.fronts.windows = bd_layers_sketch_windows(ctx, setting, effort, cutoff);
  bd_fronts_build(ctx, &c.fronts);
  c.stopped = c.fronts.stopped;
  if (!c.stopped) c.stopped = !bd_ahead_open(ctx, &c.fronts, &c.ahead);
  if (!c.stopped) run(&c);
  out->bound = bound_of(&c, cutoff, bound_only);
  out->cut = c.stopped;
  out->found = c.best_trail >= 0 && !bound_only;
  if (!out->found) return BD_OK;
  out->seconds = c.cutoff;
  trace(&c, &out->plan);
  return BD_OK;
}
