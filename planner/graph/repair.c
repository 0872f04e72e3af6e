#include "planner/graph/repair.h"
#include "planner/graph/anneal.h"
#include "planner/graph/bottleneck.h"
#include <math.h>
#include <string.h>

enum { PRICE_ROUNDS = 24, MOST_MOVED = 2, POLISH_ROUNDS = 40, ANNEALS = 3, MOVES_OF_CHOICE = 200 };

bd_layers_plan bd_layers_plan_new(bd_ctx *ctx, const bd_layers_setting *setting) {
  int layers = setting->problem->layer_count;
  return (bd_layers_plan){.schedule = setting->schedule,
                          .micro_batches = setting->micro_batches,
                          .stages = setting->stages,
                          .chunks = setting->chunks,
                          .mode = BD_NEW_ARRAY(ctx->arena, int, setting->stages),
                          .part = BD_NEW_ARRAY(ctx->arena, int, layers),
                          .option = BD_NEW_ARRAY(ctx->arena, int, layers)};
}

void bd_layers_plan_copy(const bd_layers_plan *from, int layers, bd_layers_plan *to) {
  memcpy(to->part, from->part, (size_t)layers * sizeof *to->part);
  memcpy(to->option, from->option, (size_t)layers * sizeof *to->option);
  memcpy(to->mode, from->mode, (size_t)from->stages * sizeof *to->mode);
}

void bd_layers_repair_open(bd_ctx *ctx, bd_layers_repair *r) {
  r->found = false;
  r->begun = false;
  r->best = bd_layers_plan_new(ctx, r->setting);
  r->start = bd_layers_plan_new(ctx, r->setting);
  r->plan = bd_layers_plan_new(ctx, r->setting);
  r->first = BD_NEW_ARRAY(ctx->arena, int, r->setting->stages * r->setting->chunks + 1);
  r->measured = BD_NEW_ARRAY(ctx->arena, bd_layers_stage, r->setting->stages);
}

static void number_parts(bd_layers_repair *r) {
  int layers = r->setting->problem->layer_count;
  for (int i = layers - 1; i >= 0; i--)
    r->first[r->plan.part[i]] = i;
  r->first[r->setting->stages * r->setting->chunks] = layers;
}

static bool spend(bd_layers_repair *r, int64_t work) {
  return bd_layers_spend(r->effort->meter, work, r->effort->most_work);
}

static double option_seconds(const bd_layers_repair *r, int layer, int option) {
  const bd_layers_setting *s = r->setting;
  const bd_layers_criteria *c = bd_layers_option_criteria(s, layer, option);
  int stage = r->plan.part[layer] % s->stages;
  double seconds =
      r->prices->sync_weight[stage] * s->problem->layers[layer].options[option].sync_seconds;
  for (int i = 0; i < s->criteria; i++)
    seconds += r->prices->weight[stage].at[i] * c->at[i];
  return seconds;
}

static double option_bytes(const bd_layers_repair *r, int layer, int option) {
  const bd_layers_option *o = &r->setting->problem->layers[layer].options[option];
  const bd_schedule_hold *hold = &r->setting->hold[r->plan.part[layer] % r->setting->stages];
  double held = (double)hold->tapes * (double)o->micro_batch_bytes +
                (double)hold->weight_inputs * (double)o->weight_input_bytes;
  return (double)o->fixed_bytes + held / r->setting->chunks;
}

// The best option of a layer under a price, of a form; false: it has none.
static bool choose(bd_layers_repair *r, int layer, int form, double price) {
  const bd_layers_problem *problem = r->setting->problem;
  int mode = r->plan.mode[r->plan.part[layer] % r->setting->stages];
  const bd_layers_usable *usable = &r->setting->usable[layer * problem->mode_count + mode];
  double best = INFINITY;
  for (int i = 0; i < usable->count; i++) {
    int option = usable->option[i];
    if (problem->layers[layer].options[option].form != form) continue;
    double value = option_seconds(r, layer, option) + price * option_bytes(r, layer, option);
    if (value >= best) continue;
    best = value;
    r->plan.option[layer] = option;
  }
  return isfinite(best);
}

static int form_of(const bd_layers_repair *r, int layer) {
  return r->setting->problem->layers[layer].options[r->plan.option[layer]].form;
}

static bool choose_stage(bd_layers_repair *r, int stage, double price) {
  for (int part = stage; part < r->setting->stages * r->setting->chunks; part += r->setting->stages)
    for (int i = r->first[part]; i < r->first[part + 1]; i++)
      if (!choose(r, i, form_of(r, i), price)) return false;
  return true;
}

// As bd_layers_measure counts a stage's bytes.
static bool stage_fits(const bd_layers_repair *r, int stage) {
  const bd_layers_setting *s = r->setting;
  const bd_layers_problem *p = s->problem;
  const bd_schedule_hold *hold = &s->hold[stage];
  int64_t fixed = 0, workspace = 0, largest = 0;
  int mode = r->plan.mode[stage];
  for (int part = stage; part < s->stages * s->chunks; part += s->stages) {
    int first = r->first[part];
    int64_t tape = first ? hold->tapes * p->cuts[first].held_bytes[mode] : 0;
    for (int i = first; i < r->first[part + 1]; i++) {
      const bd_layers_option *o = &p->layers[i].options[r->plan.option[i]];
      fixed += o->fixed_bytes;
      tape += hold->tapes * o->micro_batch_bytes + hold->weight_inputs * o->weight_input_bytes;
      if (o->workspace_bytes > workspace) workspace = o->workspace_bytes;
    }
    if (tape > largest) largest = tape;
  }
  return fixed + largest + workspace <= p->groups[p->modes[mode].group].cap_bytes;
}

// Layers that have room for what they run at a lower price.
static void fill_room(bd_layers_repair *r, int stage, double price) {
  for (int part = stage; part < r->setting->stages * r->setting->chunks; part += r->setting->stages)
    for (int i = r->first[part]; i < r->first[part + 1]; i++) {
      int kept = r->plan.option[i];
      choose(r, i, form_of(r, i), price);
      if (r->plan.option[i] != kept && !stage_fits(r, stage)) r->plan.option[i] = kept;
    }
}

// The fastest options that keep to the cap, by the least price that does.
static bool fit_stage(bd_layers_repair *r, int stage) {
  double low = 0, high = 1e-15;
  if (!choose_stage(r, stage, 0)) return false;
  if (stage_fits(r, stage)) return true;
  for (; high < 1; high *= 8) {
    choose_stage(r, stage, high);
    if (stage_fits(r, stage)) break;
    low = high;
  }
  if (high >= 1) return false;
  for (int round = 0; round < PRICE_ROUNDS; round++) {
    double middle = (low + high) / 2;
    choose_stage(r, stage, middle);
    *(stage_fits(r, stage) ? &high : &low) = middle;
  }
  choose_stage(r, stage, high);
  fill_room(r, stage, low);
  fill_room(r, stage, 0);
  return true;
}

// What a try costs, in units of work.
static int64_t try_work(const bd_layers_repair *r) {
  return (int64_t)r->setting->problem->layer_count * r->setting->stages;
}

static bool keep(bd_layers_repair *r) {
  double seconds = bd_layers_measure(r->setting->problem, &r->plan, r->measured);
  if (!(seconds < r->cutoff)) return false;
  r->cutoff = seconds;
  r->found = true;
  bd_layers_plan_copy(&r->plan, r->setting->problem->layer_count, &r->best);
  return true;
}

static bool keep_pins(const bd_layers_repair *r) {
  const bd_layers_problem *p = r->setting->problem;
  for (int i = 0; p->stage && i < p->layer_count; i++)
    if (p->stage[i] >= 0 && p->stage[i] != r->plan.part[i] % r->setting->stages) return false;
  return true;
}

void bd_layers_repair_path(bd_layers_repair *r, const bd_priced_path *path) {
  int layers = r->setting->problem->layer_count, stages = r->setting->stages;
  if (!spend(r, try_work(r) + (int64_t)layers * PRICE_ROUNDS)) return;
  for (int s = 0; s < stages; s++)
    r->plan.mode[s] = -1;
  for (int i = 0; i < layers; i++) {
    int *mode = &r->plan.mode[path->part[i] % stages];
    if (*mode >= 0 && *mode != path->mode[i]) return;
    *mode = path->mode[i];
    r->plan.part[i] = path->part[i];
    r->plan.option[i] = path->option[i];
  }
  number_parts(r);
  double seconds = bd_layers_measure(r->setting->problem, &r->plan, r->measured);
  if (!isfinite(seconds)) return;
  r->begun = true;
  bd_layers_plan_copy(&r->plan, layers, &r->start);
  if (seconds >= 1.3 * r->cutoff) return;
  for (int s = 0; s < stages; s++)
    if (!stage_fits(r, s) && !fit_stage(r, s)) return;
  (void)keep(r);
}

// The plan that is tried begins as the best.
static void take_best(bd_layers_repair *r) {
  bd_layers_plan_copy(&r->best, r->setting->problem->layer_count, &r->plan);
  number_parts(r);
}

// Moves `count` layers over the boundary before `part`, to the left when negative; the stages on
// both sides choose their options anew.
static bool try_shift(bd_layers_repair *r, int part, int count) {
  int stages = r->setting->stages, at = r->first[part], to = at + count;
  if (to <= r->first[part - 1] || to >= r->first[part + 1]) return false;
  int form = form_of(r, at);
  for (int i = at; i < to; i++)
    r->plan.part[i] = part - 1;
  for (int i = to; i < at; i++)
    r->plan.part[i] = part;
  r->first[part] = to;
  for (int i = to < at ? to : at; i < (to < at ? at : to); i++)
    if (!choose(r, i, form, 0)) return false;
  return keep_pins(r) && fit_stage(r, part % stages) && fit_stage(r, (part - 1) % stages) &&
         keep(r);
}

static bool shift_boundaries(bd_layers_repair *r) {
  bool any = false;
  for (int part = 1; part < r->setting->stages * r->setting->chunks; part++)
    for (int count = -MOST_MOVED; count <= MOST_MOVED; count++) {
      if (!count) continue;
      if (!spend(r, try_work(r) + (int64_t)r->setting->problem->layer_count * PRICE_ROUNDS))
        return false;
      any = try_shift(r, part, count) || any;
      take_best(r);
    }
  return any;
}

static bool change_options(bd_layers_repair *r) {
  const bd_layers_problem *p = r->setting->problem;
  bool any = false;
  for (int i = 0; i < p->layer_count; i++) {
    int stage = r->plan.part[i] % r->setting->stages;
    const bd_layers_usable *usable = &r->setting->usable[i * p->mode_count + r->plan.mode[stage]];
    for (int k = 0; k < usable->count; k++) {
      if (!spend(r, try_work(r))) return false;
      r->plan.option[i] = usable->option[k];
      if (usable->option[k] != r->best.option[i] && stage_fits(r, stage)) any = keep(r) || any;
    }
    r->plan.option[i] = r->best.option[i];
  }
  return any;
}

// Moves layers of the best plan over boundaries, and options, for as long as that makes it shorter.
static void polish(bd_layers_repair *r) {
  take_best(r);
  for (int round = 0; round < POLISH_ROUNDS; round++) {
    bool shifted = shift_boundaries(r);
    if (!(change_options(r) || shifted)) break;
  }
}

void bd_layers_repair_anneal(bd_ctx *ctx, bd_layers_repair *r, int moves) {
  int64_t choices = (int64_t)r->setting->problem->layer_count * r->setting->stages;
  choices *= (int64_t)r->setting->chunks * MOVES_OF_CHOICE;
  if (moves > choices) moves = (int)choices;
  if (!r->begun) return;
  for (int seed = 0; seed < ANNEALS; seed++) {
    bool found;
    double seconds;
    bd_layers_anneal(ctx, r->setting, r->effort, r->found ? &r->best : &r->start, moves,
                     r->effort->labels + seed, r->cutoff, &r->plan, &seconds, &found);
    if (!found) continue;
    r->found = true;
    r->cutoff = bd_layers_measure(r->setting->problem, &r->plan, r->measured);
    bd_layers_plan_copy(&r->plan, r->setting->problem->layer_count, &r->best);
  }
  if (r->found) polish(r);
}
