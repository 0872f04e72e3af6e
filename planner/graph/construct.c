#include "planner/graph/construct.h"
#include "planner/graph/weights.h"
#include <math.h>
#include <string.h>

enum { CUT_ROUNDS = 40, PRICE_ROUNDS = 24, ROUNDS = 3 };

typedef struct constructing {
  bd_ctx *ctx;
  const bd_layers_setting *setting;
  const bd_layers_problem *problem;
  int mode, form, parts;
  double cutoff;
  double *seconds; // per layer: what it is taken to cost when the chain is cut
  int *first;      // per part, and one more: its first layer
  bd_layers_plan plan, best;
  bd_layers_stage *measured; // per stage
  bool found;
} constructing;

// What an option adds to a step if its stage is the slowest.
static double option_seconds(const constructing *c, int layer, int option) {
  return bd_layers_linear_rest(c->setting, bd_layers_option_criteria(c->setting, layer, option)) +
         c->problem->layers[layer].options[option].sync_seconds;
}

// About what it adds to its stage's bytes.
static double option_bytes(const constructing *c, int layer, int option) {
  const bd_layers_option *o = &c->problem->layers[layer].options[option];
  const bd_schedule_hold *hold = &c->setting->hold[c->plan.part[layer] % c->setting->stages];
  double slots = (double)hold->tapes * (double)o->micro_batch_bytes +
                 (double)hold->weight_inputs * (double)o->weight_input_bytes;
  return (double)o->fixed_bytes + slots / c->setting->chunks;
}

// The best option of a layer under a price; false: it has none of this mode and form.
static bool choose(constructing *c, int layer, double price) {
  const bd_layers_usable *usable = &c->setting->usable[layer * c->problem->mode_count + c->mode];
  double best = INFINITY;
  for (int i = 0; i < usable->count; i++) {
    int option = usable->option[i];
    if (c->problem->layers[layer].options[option].form != c->form) continue;
    double value = option_seconds(c, layer, option) + price * option_bytes(c, layer, option);
    if (value >= best) continue;
    best = value;
    c->plan.option[layer] = option;
  }
  return isfinite(best);
}

static bool choose_fastest(constructing *c) {
  for (int i = 0; i < c->problem->layer_count; i++) {
    if (!choose(c, i, 0)) return false;
    c->seconds[i] = option_seconds(c, i, c->plan.option[i]);
  }
  return true;
}

// Every part ends where it comes closest to its share of all seconds.
static void cut_evenly(constructing *c) {
  int layers = c->problem->layer_count, next = 0;
  double total = 0, done = 0;
  for (int i = 0; i < layers; i++)
    total += c->seconds[i];
  for (int part = 0; part < c->parts; part++) {
    int most = layers - (c->parts - 1 - part), first = next;
    double end = total * (part + 1) / c->parts;
    while (next < most &&
           (next == first || part == c->parts - 1 || done + c->seconds[next] / 2 <= end)) {
      done += c->seconds[next];
      c->plan.part[next++] = part;
    }
  }
}

static bool cut_within(constructing *c, double limit) {
  int layers = c->problem->layer_count, part = 0;
  double filled = 0;
  for (int i = 0; i < layers; i++) {
    // Every part has a layer.
    bool must = layers - i == c->parts - 1 - part;
    if (i && (must || filled + c->seconds[i] > limit)) {
      part++;
      filled = 0;
    }
    if (part == c->parts) return false;
    filled += c->seconds[i];
    c->plan.part[i] = part;
  }
  return part == c->parts - 1;
}

// The slowest part is as fast as can be.
static void cut_tightly(constructing *c) {
  double low = 0, high = 0;
  for (int i = 0; i < c->problem->layer_count; i++)
    high += c->seconds[i];
  for (int round = 0; round < CUT_ROUNDS; round++) {
    double middle = (low + high) / 2;
    *(cut_within(c, middle) ? &high : &low) = middle;
  }
  if (!cut_within(c, high)) cut_evenly(c);
}

static void number_parts(constructing *c) {
  int layers = c->problem->layer_count;
  for (int i = layers - 1; i >= 0; i--)
    c->first[c->plan.part[i]] = i;
  c->first[c->parts] = layers;
}

static void choose_stage(constructing *c, int stage, double price) {
  for (int part = stage; part < c->parts; part += c->setting->stages)
    for (int i = c->first[part]; i < c->first[part + 1]; i++)
      choose(c, i, price);
}

// As bd_layers_measure counts a stage's bytes.
static bool stage_fits(const constructing *c, int stage) {
  const bd_layers_problem *p = c->problem;
  const bd_schedule_hold *hold = &c->setting->hold[stage];
  int64_t fixed = 0, workspace = 0, largest = 0;
  for (int part = stage; part < c->parts; part += c->setting->stages) {
    int first = c->first[part];
    int64_t tape = first ? hold->tapes * p->cuts[first].held_bytes[c->mode] : 0;
    for (int i = first; i < c->first[part + 1]; i++) {
      const bd_layers_option *o = &p->layers[i].options[c->plan.option[i]];
      fixed += o->fixed_bytes;
      tape += hold->tapes * o->micro_batch_bytes + hold->weight_inputs * o->weight_input_bytes;
      if (o->workspace_bytes > workspace) workspace = o->workspace_bytes;
    }
    if (tape > largest) largest = tape;
  }
  return fixed + largest + workspace <= p->groups[p->modes[c->mode].group].cap_bytes;
}

// The fastest options that keep to the cap, by the least price that does.
static bool fit_stage(constructing *c, int stage) {
  double low = 0, high = 1e-15;
  choose_stage(c, stage, 0);
  if (stage_fits(c, stage)) return true;
  for (; high < 1; high *= 8) {
    choose_stage(c, stage, high);
    if (stage_fits(c, stage)) break;
    low = high;
  }
  if (high >= 1) return false;
  for (int round = 0; round < PRICE_ROUNDS; round++) {
    double middle = (low + high) / 2;
    choose_stage(c, stage, middle);
    *(stage_fits(c, stage) ? &high : &low) = middle;
  }
  choose_stage(c, stage, high);
  // Layers that have room for what they run at a price just too low.
  for (int part = stage; part < c->parts; part += c->setting->stages)
    for (int i = c->first[part]; i < c->first[part + 1]; i++) {
      int kept = c->plan.option[i];
      choose(c, i, low);
      if (c->plan.option[i] != kept && !stage_fits(c, stage)) c->plan.option[i] = kept;
    }
  return true;
}

static void keep(constructing *c) {
  double seconds = bd_layers_measure(c->problem, &c->plan, c->measured);
  if (seconds >= c->cutoff) return;
  for (int s = 0; s < c->setting->stages; s++)
    if (!fit_stage(c, s)) return;
  seconds = bd_layers_measure(c->problem, &c->plan, c->measured);
  if (seconds >= c->cutoff) return;
  size_t layers = (size_t)c->problem->layer_count;
  c->found = true;
  c->cutoff = seconds;
  memcpy(c->best.part, c->plan.part, layers * sizeof *c->plan.part);
  memcpy(c->best.option, c->plan.option, layers * sizeof *c->plan.option);
  memcpy(c->best.mode, c->plan.mode, (size_t)c->setting->stages * sizeof *c->plan.mode);
}

// With the seconds of what was chosen the chain is cut again.
static void construct(constructing *c) {
  static void (*const cut[])(constructing *) = {cut_evenly, cut_tightly};
  for (size_t way = 0; way < sizeof cut / sizeof *cut; way++) {
    if (!choose_fastest(c)) return;
    for (int round = 0; round < ROUNDS; round++) {
      double before = c->cutoff;
      cut[way](c);
      number_parts(c);
      keep(c);
      if (round && c->cutoff >= before) break;
      for (int i = 0; i < c->problem->layer_count; i++)
        c->seconds[i] = option_seconds(c, i, c->plan.option[i]);
    }
  }
}

static bd_layers_plan new_plan(bd_ctx *ctx, const bd_layers_setting *setting) {
  int layers = setting->problem->layer_count;
  return (bd_layers_plan){.schedule = setting->schedule,
                          .micro_batches = setting->micro_batches,
                          .stages = setting->stages,
                          .chunks = setting->chunks,
                          .mode = BD_NEW_ARRAY(ctx->arena, int, setting->stages),
                          .part = BD_NEW_ARRAY(ctx->arena, int, layers),
                          .option = BD_NEW_ARRAY(ctx->arena, int, layers)};
}

void bd_layers_construct(bd_ctx *ctx, const bd_layers_setting *setting, double cutoff,
                         bd_layers_outcome *out) {
  const bd_layers_problem *problem = setting->problem;
  constructing c = {.ctx = ctx, .setting = setting, .problem = problem, .cutoff = cutoff};
  c.parts = setting->stages * setting->chunks;
  c.plan = new_plan(ctx, setting);
  c.best = new_plan(ctx, setting);
  c.seconds = BD_NEW_ARRAY(ctx->arena, double, problem->layer_count);
  c.first = BD_NEW_ARRAY(ctx->arena, int, c.parts + 1);
  c.measured = BD_NEW_ARRAY(ctx->arena, bd_layers_stage, setting->stages);
  for (c.mode = 0; c.mode < problem->mode_count; c.mode++) {
    const bd_layers_mode *mode = &problem->modes[c.mode];
    if ((int64_t)mode->devices * setting->stages > problem->groups[mode->group].count) continue;
    for (int s = 0; s < setting->stages; s++)
      c.plan.mode[s] = c.mode;
    for (c.form = 0; c.form < problem->form_count; c.form++)
      construct(&c);
  }
  *out = (bd_layers_outcome){.found = c.found, .plan = c.best, .seconds = c.cutoff};
  out->bound = bd_layers_setting_bound(setting);
}
