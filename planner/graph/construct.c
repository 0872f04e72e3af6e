#include "planner/graph/construct.h"
#include "planner/graph/fit.h"
#include <math.h>

enum { CUT_ROUNDS = 40, ROUNDS = 3 };

typedef struct constructing {
  bd_ctx *ctx;
  const bd_layers_setting *setting;
  const bd_layers_problem *problem;
  int mode, form, parts;
  double cutoff;
  double *seconds;   // per layer: what it is taken to cost when the chain is cut
  bd_layers_fit fit; // of the plan that is tried
  bd_layers_plan best;
  bd_layers_stage *measured; // per stage
  bool found;
} constructing;

static bool choose_fastest(constructing *c) {
  for (int i = 0; i < c->problem->layer_count; i++) {
    if (!bd_layers_fit_choose(&c->fit, i, c->form, 0)) return false;
    c->seconds[i] = bd_layers_fit_seconds(&c->fit, i, c->fit.plan.option[i]);
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
      c->fit.plan.part[next++] = part;
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
    c->fit.plan.part[i] = part;
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

static void keep(constructing *c) {
  const bd_layers_plan *plan = &c->fit.plan;
  double seconds = bd_layers_measure(c->problem, plan, c->measured);
  if (seconds >= c->cutoff) return;
  for (int s = 0; s < c->setting->stages; s++)
    if (!bd_layers_fit_stage(&c->fit, s)) return;
  seconds = bd_layers_measure(c->problem, plan, c->measured);
  if (seconds >= c->cutoff) return;
  c->found = true;
  c->cutoff = seconds;
  bd_layers_plan_copy(plan, c->problem->layer_count, &c->best);
}

// With the seconds of what was chosen the chain is cut again.
static void construct(constructing *c) {
  static void (*const cut[])(constructing *) = {cut_evenly, cut_tightly};
  for (size_t way = 0; way < sizeof cut / sizeof *cut; way++) {
    if (!choose_fastest(c)) return;
    for (int round = 0; round < ROUNDS; round++) {
      double before = c->cutoff;
      cut[way](c);
      bd_layers_fit_parts(&c->fit);
      keep(c);
      if (round && c->cutoff >= before) break;
      for (int i = 0; i < c->problem->layer_count; i++)
        c->seconds[i] = bd_layers_fit_seconds(&c->fit, i, c->fit.plan.option[i]);
    }
  }
}

void bd_layers_construct(bd_ctx *ctx, const bd_layers_setting *setting, double cutoff,
                         bd_layers_outcome *out) {
  const bd_layers_problem *problem = setting->problem;
  constructing c = {.ctx = ctx, .setting = setting, .problem = problem, .cutoff = cutoff};
  c.parts = setting->stages * setting->chunks;
  c.fit.setting = setting;
  bd_layers_fit_weigh(ctx, &c.fit);
  bd_layers_fit_open(ctx, &c.fit);
  c.best = bd_layers_plan_new(ctx, setting);
  c.seconds = BD_NEW_ARRAY(ctx->arena, double, problem->layer_count);
  c.measured = BD_NEW_ARRAY(ctx->arena, bd_layers_stage, setting->stages);
  for (c.mode = 0; c.mode < problem->mode_count; c.mode++) {
    const bd_layers_mode *mode = &problem->modes[c.mode];
    if ((int64_t)mode->devices * setting->stages > problem->groups[mode->group].count) continue;
    for (int s = 0; s < setting->stages; s++)
      c.fit.plan.mode[s] = c.mode;
    for (c.form = 0; c.form < problem->form_count; c.form++)
      construct(&c);
  }
  *out = (bd_layers_outcome){.found = c.found, .plan = c.best, .seconds = c.cutoff};
  out->bound = bd_layers_setting_bound(setting);
}
