#include "planner/graph/priced_path.h"
#include <float.h>
#include <math.h>

#define ROUNDING 1e-13

bd_priced_path bd_priced_path_new(bd_ctx *ctx, int layers) {
  return (bd_priced_path){.part = BD_NEW_ARRAY(ctx->arena, int, layers),
                          .option = BD_NEW_ARRAY(ctx->arena, int, layers),
                          .mode = BD_NEW_ARRAY(ctx->arena, int, layers)};
}

static bool is_mode_of(const bd_layers_prices *p, int part, int mode) {
  int only = p->mode[part % p->setting->stages];
  return only < 0 || only == mode;
}

// The least of a layer's options of a mode and a form.
static double least_option(const bd_layers_prices *p, int layer, int part, int mode, int form,
                           int *out_option) {
  const bd_layers_setting *s = p->setting;
  const bd_layers_usable *usable = bd_layers_usable_of(s, layer, mode);
  double least = INFINITY;
  *out_option = -1;
  if (s->problem->stage && s->problem->stage[layer] >= 0 &&
      s->problem->stage[layer] != part % s->stages)
    return least;
  for (int k = 0; k < usable->count; k++) {
    if (p->forms > 1 && s->problem->layers[layer].options[usable->option[k]].form != form) continue;
    double cost = bd_layers_priced_option(p, layer, part, usable->option[k]);
    if (cost >= least) continue;
    least = cost;
    *out_option = usable->option[k];
  }
  return least;
}

// How a plan goes on after a layer.
typedef struct move {
  double cost;
  bool leaves; // the part ends
  int mode, form;
} move;

static move least_move(const bd_layers_prices *p, int layer, int part, int mode, int form) {
  const bd_layers_problem *problem = p->setting->problem;
  move out = {.cost = INFINITY};
  int F = p->forms;
  if (layer + 1 == problem->layer_count) {
    if (part == p->parts - 1) out.cost = 0;
    return out;
  }
  const double *change = &problem->cuts[layer + 1].change[(mode * F + form) * F];
  for (int g = 0; g < F; g++) {
    double then = p->to_go[bd_layers_priced_at(p, layer + 1, part, mode, g)];
    if (!isfinite(then) || !isfinite(change[g])) continue;
    then += change[g] * p->both_weight[part % p->setting->stages];
    if (then < out.cost) out = (move){then, false, mode, g};
  }
  for (int n = 0; part + 1 < p->parts && n < p->modes; n++)
    for (int g = 0; g < F; g++) {
      double then = p->to_go[bd_layers_priced_at(p, layer + 1, part + 1, n, g)];
      if (!isfinite(then)) continue;
      then += bd_layers_priced_entry(p, layer + 1, part + 1, mode, form, n, g);
      if (then < out.cost) out = (move){then, true, n, g};
    }
  return out;
}

static void fill_cell(bd_layers_prices *p, int layer, int part, int mode) {
  int layers = p->setting->problem->layer_count, option;
  bool reached = part <= layer && layers - layer >= p->parts - part && is_mode_of(p, part, mode);
  for (int f = 0; f < p->forms; f++) {
    size_t at = bd_layers_priced_at(p, layer, part, mode, f);
    p->to_go[at] = p->after[at] = INFINITY;
    if (!reached) continue;
    p->after[at] = least_move(p, layer, part, mode, f).cost;
    if (isfinite(p->after[at]))
      p->to_go[at] = p->after[at] + least_option(p, layer, part, mode, f, &option);
  }
}

double bd_priced_path_least(bd_layers_prices *p) {
  const bd_layers_problem *problem = p->setting->problem;
  double least = INFINITY, slack = 0, all = 0;
  p->ready = false;
  for (int i = 0; i < p->price_count; i++) {
    all += p->price[i].value;
    if (p->price[i].kind >= BD_PRICES_SHARED) slack += p->price[i].value;
  }
  if (!isfinite(all)) return NAN;
  for (int l = problem->layer_count - 1; l >= 0; l--) {
    int64_t work = (int64_t)p->parts * p->modes * p->forms;
    if (!bd_layers_spend(p->meter, work * (1 + problem->layers[l].option_count / p->modes),
                         p->most_work))
      return -INFINITY;
    for (int part = 0; part < p->parts; part++)
      for (int n = 0; n < p->modes; n++)
        fill_cell(p, l, part, n);
  }
  for (int n = 0; n < p->modes; n++)
    for (int f = 0; f < p->forms; f++)
      least = fmin(least, p->to_go[bd_layers_priced_at(p, 0, 0, n, f)] +
                              bd_layers_priced_entry(p, 0, 0, 0, 0, n, f));
  if (!isfinite(least)) return INFINITY;
  // Sums of prices are rounded, once a layer.
  p->constant += (ROUNDING + problem->layer_count * DBL_EPSILON) * (slack + fabs(least));
  p->ready = true;
  return least - p->constant;
}

void bd_priced_path_trace(const bd_layers_prices *p, bd_priced_path *out) {
  move at = {.cost = INFINITY};
  int part = 0;
  for (int n = 0; n < p->modes; n++)
    for (int f = 0; f < p->forms; f++) {
      double cost = p->to_go[bd_layers_priced_at(p, 0, 0, n, f)] +
                    bd_layers_priced_entry(p, 0, 0, 0, 0, n, f);
      if (cost < at.cost) at = (move){cost, false, n, f};
    }
  for (int l = 0; l < p->setting->problem->layer_count; l++) {
    part += at.leaves;
    out->part[l] = part;
    out->mode[l] = at.mode;
    least_option(p, l, part, at.mode, at.form, &out->option[l]);
    at = least_move(p, l, part, at.mode, at.form);
  }
}
