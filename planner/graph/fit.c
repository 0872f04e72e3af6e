#include "planner/graph/fit.h"
#include "planner/graph/weights.h"
#include <math.h>

#define LEAST_PRICE 1e-15 // seconds of a byte
#define MOST_PRICE 1e3
#define PRICE_STEP 8

void bd_layers_fit_weigh(bd_ctx *ctx, bd_layers_fit *fit) {
  int stages = fit->setting->stages;
  bd_layers_criteria *weight = BD_NEW_ARRAY(ctx->arena, bd_layers_criteria, stages);
  double *sync_weight = BD_NEW_ARRAY(ctx->arena, double, stages);
  for (int i = 0; i < stages; i++) {
    weight[i] = bd_layers_linear_weight(fit->setting);
    sync_weight[i] = 1;
  }
  fit->weight = weight;
  fit->sync_weight = sync_weight;
}

void bd_layers_fit_open(bd_ctx *ctx, bd_layers_fit *fit) {
  fit->plan = bd_layers_plan_new(ctx, fit->setting);
  fit->first = BD_NEW_ARRAY(ctx->arena, int, fit->setting->stages * fit->setting->chunks + 1);
}

void bd_layers_fit_parts(bd_layers_fit *fit) {
  int layers = fit->setting->problem->layer_count;
  for (int i = layers - 1; i >= 0; i--)
    fit->first[fit->plan.part[i]] = i;
  fit->first[fit->setting->stages * fit->setting->chunks] = layers;
}

static int stage_of(const bd_layers_fit *fit, int layer) {
  return fit->plan.part[layer] % fit->setting->stages;
}

double bd_layers_fit_seconds(const bd_layers_fit *fit, int layer, int option) {
  const bd_layers_setting *s = fit->setting;
  const bd_layers_criteria *c = bd_layers_option_criteria(s, layer, option);
  int stage = stage_of(fit, layer);
  double seconds = fit->sync_weight[stage] * s->problem->layers[layer].options[option].sync_seconds;
  for (int i = 0; i < s->criteria; i++)
    seconds += fit->weight[stage].at[i] * c->at[i];
  return seconds;
}

// About what an option adds to its stage's bytes.
static double option_bytes(const bd_layers_fit *fit, int layer, int option) {
  const bd_layers_setting *s = fit->setting;
  const bd_layers_option *o = &s->problem->layers[layer].options[option];
  double held = (double)bd_layers_option_held(s, stage_of(fit, layer), o);
  return (double)o->fixed_bytes + held / s->chunks;
}

bool bd_layers_fit_choose(bd_layers_fit *fit, int layer, int form, double price) {
  const bd_layers_problem *problem = fit->setting->problem;
  int mode = fit->plan.mode[stage_of(fit, layer)];
  const bd_layers_usable *usable = bd_layers_usable_of(fit->setting, layer, mode);
  double best = INFINITY;
  for (int i = 0; i < usable->count; i++) {
    int option = usable->option[i];
    if (problem->layers[layer].options[option].form != form) continue;
    double value = bd_layers_fit_seconds(fit, layer, option);
    if (price > 0) value += price * option_bytes(fit, layer, option);
    if (value >= best) continue;
    best = value;
    fit->plan.option[layer] = option;
  }
  return isfinite(best);
}

static int form_of(const bd_layers_fit *fit, int layer) {
  return fit->setting->problem->layers[layer].options[fit->plan.option[layer]].form;
}

static bool choose_stage(bd_layers_fit *fit, int stage, double price) {
  int stages = fit->setting->stages;
  for (int part = stage; part < stages * fit->setting->chunks; part += stages)
    for (int i = fit->first[part]; i < fit->first[part + 1]; i++)
      if (!bd_layers_fit_choose(fit, i, form_of(fit, i), price)) return false;
  return true;
}

// As bd_layers_measure counts a stage's bytes.
bool bd_layers_fit_holds(const bd_layers_fit *fit, int stage) {
  const bd_layers_setting *s = fit->setting;
  const bd_layers_problem *p = s->problem;
  int64_t fixed = 0, workspace = 0, largest = 0;
  int mode = fit->plan.mode[stage];
  for (int part = stage; part < s->stages * s->chunks; part += s->stages) {
    int first = fit->first[part];
    int64_t tape = first ? s->hold[stage].tapes * p->cuts[first].held_bytes[mode] : 0;
    for (int i = first; i < fit->first[part + 1]; i++) {
      const bd_layers_option *o = &p->layers[i].options[fit->plan.option[i]];
      fixed = bd_layers_add_bytes(fixed, o->fixed_bytes);
      tape = bd_layers_add_bytes(tape, bd_layers_option_held(s, stage, o));
      if (o->workspace_bytes > workspace) workspace = o->workspace_bytes;
    }
    if (tape > largest) largest = tape;
  }
  return bd_layers_add_bytes(bd_layers_add_bytes(fixed, largest), workspace) <=
         bd_layers_mode_cap(p, mode);
}

// Layers that have room for what they run at a lower price.
static void fill_room(bd_layers_fit *fit, int stage, double price) {
  int stages = fit->setting->stages;
  for (int part = stage; part < stages * fit->setting->chunks; part += stages)
    for (int i = fit->first[part]; i < fit->first[part + 1]; i++) {
      int kept = fit->plan.option[i];
      (void)bd_layers_fit_choose(fit, i, form_of(fit, i), price);
      if (fit->plan.option[i] != kept && !bd_layers_fit_holds(fit, stage))
        fit->plan.option[i] = kept;
    }
}

bool bd_layers_fit_stage(bd_layers_fit *fit, int stage) {
  double low = 0, high = LEAST_PRICE;
  if (!choose_stage(fit, stage, 0)) return false;
  if (bd_layers_fit_holds(fit, stage)) return true;
  for (; high < MOST_PRICE; high *= PRICE_STEP) {
    (void)choose_stage(fit, stage, high);
    if (bd_layers_fit_holds(fit, stage)) break;
    low = high;
  }
  if (high >= MOST_PRICE) return false;
  for (int round = 0; round < BD_LAYERS_FIT_ROUNDS; round++) {
    double middle = (low + high) / 2;
    (void)choose_stage(fit, stage, middle);
    *(bd_layers_fit_holds(fit, stage) ? &high : &low) = middle;
  }
  (void)choose_stage(fit, stage, high);
  fill_room(fit, stage, low);
  fill_room(fit, stage, 0);
  return true;
}
