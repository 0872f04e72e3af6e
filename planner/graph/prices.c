#include "planner/graph/prices.h"
#include <math.h>

enum { CELL_LIMIT = 1 << 22 };

static void add_price(bd_layers_prices *p, bd_price_kind kind, int of, int criterion,
                      double value) {
  p->price[p->price_count++] =
      (bd_price){.kind = kind, .of = of, .criterion = criterion, .value = value, .best = value};
}

void bd_layers_prices_restart(bd_layers_prices *p, const int *mode) {
  const bd_layers_setting *s = p->setting;
  p->mode = mode;
  p->bound = 0;
  p->ready = false;
  p->price_count = 0;
  if (!p->to_go) return;
  double share = 1.0 / s->stages;
  for (int i = 0; i < s->stages; i++) {
    if (s->schedule == BD_SCHEDULE_ZERO_BUBBLE) {
      add_price(p, BD_PRICE_REST, i, 1, share);
      add_price(p, BD_PRICE_REST, i, 2, 0);
      add_price(p, BD_PRICE_REST, i, 3, 0);
    } else if (s->schedule == BD_SCHEDULE_GPIPE) {
      add_price(p, BD_PRICE_REST, i, 1, share);
      add_price(p, BD_PRICE_SECOND, i, 2, share);
    } else {
      add_price(p, BD_PRICE_REST, i, 0, share);
    }
    add_price(p, BD_PRICE_SYNC, i, 0, share);
  }
  for (int i = 0; i < p->parts; i++)
    add_price(p, BD_PRICE_BYTES, i, 0, 0);
  for (int g = 0; g < s->problem->group_count; g++)
    add_price(p, BD_PRICE_DEVICES, g, 0, 0);
}

double bd_layers_price_factor(const bd_layers_setting *s, const bd_price *price) {
  return price->criterion ? 1 : s->micro_batches - 1.0 / s->chunks;
}

static void apply_price(bd_layers_prices *p, const bd_price *price) {
  const bd_layers_setting *s = p->setting;
  int count = price->kind == BD_PRICE_DEVICES ? s->problem->groups[price->of].count : 1;
  switch (price->kind) {
  case BD_PRICE_REST:
  case BD_PRICE_SECOND:
    p->weight[price->of].at[price->criterion] += price->value * bd_layers_price_factor(s, price);
    break;
  case BD_PRICE_SYNC:
    p->sync_weight[price->of] = price->value;
    break;
  case BD_PRICE_BYTES:
    p->byte[price->of] = price->value / p->largest_cap;
    p->fixed_byte[price->of % s->stages] += price->value / p->largest_cap;
    break;
  default:
    p->device[price->of] = count ? price->value / count : 0;
    p->constant += price->value;
  }
}

void bd_layers_prices_apply(bd_layers_prices *p) {
  const bd_layers_setting *s = p->setting;
  p->constant = 0;
  for (int i = 0; i < s->stages; i++) {
    p->weight[i] =
        (bd_layers_criteria){{s->schedule == BD_SCHEDULE_ZERO_BUBBLE ? 1 : 1.0 / s->chunks}};
    p->fixed_byte[i] = 0;
  }
  for (int i = 0; i < p->price_count; i++)
    apply_price(p, &p->price[i]);
  bd_layers_criteria both = bd_layers_criteria_both(s, 1);
  for (int i = 0; i < s->stages; i++) {
    p->both_weight[i] = 0;
    for (int c = 0; c < s->criteria; c++)
      p->both_weight[i] += p->weight[i].at[c] * both.at[c];
  }
}

double bd_layers_priced_option(const bd_layers_prices *p, int layer, int part, int option) {
  const bd_layers_setting *s = p->setting;
  const bd_layers_option *o = &s->problem->layers[layer].options[option];
  const bd_layers_criteria *c = bd_layers_option_criteria(s, layer, option);
  int stage = part % s->stages;
  double cost = p->sync_weight[stage] * o->sync_seconds;
  for (int i = 0; i < s->criteria; i++)
    cost += p->weight[stage].at[i] * c->at[i];
  return cost + p->fixed_byte[stage] * (double)o->fixed_bytes +
         p->byte[part] * (double)bd_layers_option_held(s, stage, o);
}

double bd_layers_skipped_bytes(const bd_layers_setting *s, int layer, int part, int mode) {
  if (!layer) return 0;
  return (double)s->hold[part % s->stages].tapes * (double)s->problem->cuts[layer].held_bytes[mode];
}

double bd_layers_priced_entry(const bd_layers_prices *p, int layer, int part, int left_mode,
                              int left_form, int mode, int form) {
  const bd_layers_setting *s = p->setting;
  const bd_layers_problem *problem = s->problem;
  const bd_layers_mode *at = &problem->modes[mode];
  double cost = p->device[at->group] * at->devices / s->chunks;
  double room = (double)bd_layers_mode_cap(problem, mode);
  cost += p->byte[part] * (bd_layers_skipped_bytes(s, layer, part, mode) - room);
  if (!part) return cost;
  const bd_layers_cut *cut = &problem->cuts[layer];
  int hand = bd_layers_hand_at(problem, left_mode, left_form, mode, form);
  if (!isfinite(cut->send[hand]) || !isfinite(cut->receive[hand])) return INFINITY;
  return cost + cut->send[hand] * p->both_weight[(part - 1) % s->stages] +
         cut->receive[hand] * p->both_weight[part % s->stages];
}

// The most that the boundary before a layer may add to any plan.
static double most_of_cut(const bd_layers_prices *p, int layer) {
  const bd_layers_cut *cut = &p->setting->problem->cuts[layer];
  int cells = p->forms * p->forms;
  double most = 0;
  for (int i = 0; i < p->modes * cells; i++)
    if (isfinite(cut->change[i])) most = fmax(most, cut->change[i]);
  for (int i = 0; i < p->modes * p->modes * cells; i++)
    if (isfinite(cut->send[i] + cut->receive[i])) most = fmax(most, cut->send[i] + cut->receive[i]);
  return most;
}

static double seconds_of(const bd_layers_setting *s, const bd_layers_criteria *c) {
  return bd_layers_fill(s, c) + bd_layers_rest(s, c) + bd_layers_rest_second(s, c);
}

// No plan takes more: every layer the slowest option, and all on one stage.
static double most_of_all(const bd_layers_prices *p) {
  const bd_layers_setting *s = p->setting;
  double sum = 0;
  for (int l = 0; l < s->problem->layer_count; l++) {
    double most = 0;
    for (int i = 0; i < s->problem->layers[l].option_count; i++)
      most = fmax(most, seconds_of(s, bd_layers_option_criteria(s, l, i)) +
                            s->problem->layers[l].options[i].sync_seconds);
    bd_layers_criteria cut = bd_layers_criteria_both(s, l ? most_of_cut(p, l) : 0);
    sum += most + seconds_of(s, &cut);
  }
  return sum * (1 + 1e-6);
}

void bd_layers_prices_open(bd_ctx *ctx, bd_layers_prices *p) {
  const bd_layers_setting *s = p->setting;
  const bd_layers_problem *problem = s->problem;
  int prices = 4 * s->stages + s->stages * s->chunks + problem->group_count;
  p->parts = s->stages * s->chunks;
  p->modes = problem->mode_count;
  p->forms = problem->form_count;
  p->to_go = NULL;
  bd_layers_prices_restart(p, p->mode);
  double cells = (double)problem->layer_count * p->parts * p->modes * p->forms;
  if (cells > CELL_LIMIT) return;
  p->weight = BD_NEW_ARRAY(ctx->arena, bd_layers_criteria, s->stages);
  p->sync_weight = BD_NEW_ARRAY(ctx->arena, double, s->stages);
  p->both_weight = BD_NEW_ARRAY(ctx->arena, double, s->stages);
  p->byte = BD_NEW_ARRAY(ctx->arena, double, p->parts);
  p->fixed_byte = BD_NEW_ARRAY(ctx->arena, double, s->stages);
  p->device = BD_NEW_ARRAY(ctx->arena, double, problem->group_count);
  p->to_go = BD_NEW_ARRAY(ctx->arena, double, (int)cells);
  p->after = BD_NEW_ARRAY(ctx->arena, double, (int)cells);
  p->price = BD_NEW_ARRAY(ctx->arena, bd_price, prices);
  p->ceiling = most_of_all(p);
  p->largest_cap = 1;
  for (int g = 0; g < problem->group_count; g++)
    p->largest_cap = fmax(p->largest_cap, (double)problem->groups[g].cap_bytes);
  bd_layers_prices_restart(p, p->mode);
}
