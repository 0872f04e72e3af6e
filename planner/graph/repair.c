#include "planner/graph/repair.h"
#include "planner/graph/anneal.h"
#include <math.h>

enum { MOST_MOVED = 2, POLISH_ROUNDS = 40, ANNEALS = 3, MOVES_OF_CHOICE = 200 };

void bd_layers_repair_open(bd_ctx *ctx, bd_layers_repair *r) {
  r->found = false;
  r->begun = false;
  r->best = bd_layers_plan_new(ctx, r->setting);
  r->start = bd_layers_plan_new(ctx, r->setting);
  r->fit = (bd_layers_fit){.setting = r->setting};
  if (r->prices) {
    r->fit.weight = r->prices->weight;
    r->fit.sync_weight = r->prices->sync_weight;
  } else {
    bd_layers_fit_weigh(ctx, &r->fit);
  }
  bd_layers_fit_open(ctx, &r->fit);
  r->measured = BD_NEW_ARRAY(ctx->arena, bd_layers_stage, r->setting->stages);
}

static bool spend(bd_layers_repair *r, int64_t work) {
  return bd_layers_spend(r->effort->meter, work, r->effort->most_work);
}

static int form_of(const bd_layers_repair *r, int layer) {
  return r->setting->problem->layers[layer].options[r->fit.plan.option[layer]].form;
}

// What a try costs, in units of work.
static int64_t try_work(const bd_layers_repair *r) {
  return (int64_t)r->setting->problem->layer_count * r->setting->stages;
}

static bool keep(bd_layers_repair *r) {
  double seconds = bd_layers_measure(r->setting->problem, &r->fit.plan, r->measured);
  if (!(seconds < r->cutoff)) return false;
  r->cutoff = seconds;
  r->found = true;
  bd_layers_plan_copy(&r->fit.plan, r->setting->problem->layer_count, &r->best);
  return true;
}

static bool keep_pins(const bd_layers_repair *r) {
  const bd_layers_problem *p = r->setting->problem;
  for (int i = 0; p->stage && i < p->layer_count; i++)
    if (p->stage[i] >= 0 && p->stage[i] != r->fit.plan.part[i] % r->setting->stages) return false;
  return true;
}

void bd_layers_repair_path(bd_layers_repair *r, const bd_priced_path *path) {
  int layers = r->setting->problem->layer_count, stages = r->setting->stages;
  if (!spend(r, try_work(r) + (int64_t)layers * BD_LAYERS_FIT_ROUNDS)) return;
  for (int s = 0; s < stages; s++)
    r->fit.plan.mode[s] = -1;
  for (int i = 0; i < layers; i++) {
    int *mode = &r->fit.plan.mode[path->part[i] % stages];
    if (*mode >= 0 && *mode != path->mode[i]) return;
    *mode = path->mode[i];
    r->fit.plan.part[i] = path->part[i];
    r->fit.plan.option[i] = path->option[i];
  }
  bd_layers_fit_parts(&r->fit);
  double seconds = bd_layers_measure(r->setting->problem, &r->fit.plan, r->measured);
  if (!isfinite(seconds)) return;
  r->begun = true;
  bd_layers_plan_copy(&r->fit.plan, layers, &r->start);
  if (seconds >= 1.3 * r->cutoff) return;
  for (int s = 0; s < stages; s++)
    if (!bd_layers_fit_holds(&r->fit, s) && !bd_layers_fit_stage(&r->fit, s)) return;
  (void)keep(r);
}

// The plan that is tried begins as the best.
static void take_best(bd_layers_repair *r) {
  bd_layers_plan_copy(&r->best, r->setting->problem->layer_count, &r->fit.plan);
  bd_layers_fit_parts(&r->fit);
}

// Moves `count` layers over the boundary before `part`, to the left when negative; the stages on
// both sides choose their options anew.
static bool try_shift(bd_layers_repair *r, int part, int count) {
  int stages = r->setting->stages, at = r->fit.first[part], to = at + count;
  if (to <= r->fit.first[part - 1] || to >= r->fit.first[part + 1]) return false;
  int form = form_of(r, at);
  for (int i = at; i < to; i++)
    r->fit.plan.part[i] = part - 1;
  for (int i = to; i < at; i++)
    r->fit.plan.part[i] = part;
  r->fit.first[part] = to;
  for (int i = to < at ? to : at; i < (to < at ? at : to); i++)
    if (!bd_layers_fit_choose(&r->fit, i, form, 0)) return false;
  return keep_pins(r) && bd_layers_fit_stage(&r->fit, part % stages) &&
         bd_layers_fit_stage(&r->fit, (part - 1) % stages) && keep(r);
}

static bool shift_boundaries(bd_layers_repair *r) {
  bool any = false;
  for (int part = 1; part < r->setting->stages * r->setting->chunks; part++)
    for (int count = -MOST_MOVED; count <= MOST_MOVED; count++) {
      if (!count) continue;
      if (!spend(r, try_work(r) + (int64_t)r->setting->problem->layer_count * BD_LAYERS_FIT_ROUNDS))
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
    int stage = r->fit.plan.part[i] % r->setting->stages;
    const bd_layers_usable *usable = bd_layers_usable_of(r->setting, i, r->fit.plan.mode[stage]);
    for (int k = 0; k < usable->count; k++) {
      if (!spend(r, try_work(r))) return false;
      r->fit.plan.option[i] = usable->option[k];
      if (usable->option[k] != r->best.option[i] && bd_layers_fit_holds(&r->fit, stage))
        any = keep(r) || any;
    }
    r->fit.plan.option[i] = r->best.option[i];
  }
  return any;
}

void bd_layers_repair_polish(bd_layers_repair *r) {
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
    bd_layers_anneal(ctx, r->setting, r->effort, r->found ? &r->best : &r->start, moves,
                     r->effort->labels + seed, r->cutoff, &r->fit.plan, &found);
    if (!found) continue;
    r->found = true;
    r->cutoff = bd_layers_measure(r->setting->problem, &r->fit.plan, r->measured);
    bd_layers_plan_copy(&r->fit.plan, r->setting->problem->layer_count, &r->best);
  }
  if (r->found) bd_layers_repair_polish(r);
}
