#include "planner/graph/ascent.h"
#include <math.h>

enum { PATIENCE = 6 };
#define LEAST_STEP 0.003
#define ROUNDING 1e-13
#define OF_LAST_STEP 0.6
#define AIM 1.1        // of the highest bound
#define FIRST_AIM 1e-3 // of the ceiling, where the bound is 0
#define MUCH_HIGHER 1e-4

typedef struct climbing {
  bd_layers_prices *p;
  const bd_layers_problem *problem;
  bd_priced_path path;
  bd_layers_criteria *sum; // per stage
  double *sync, *fixed;    // per stage
  double *tape, *room;     // per part: held for micro-batches; the cap
  double *used;            // per group: devices
} climbing;

// The boundary before a layer of the path.
static void add_boundary(climbing *c, int l) {
  const bd_layers_setting *s = c->p->setting;
  const bd_layers_cut *cut = &c->problem->cuts[l];
  const bd_priced_path *path = &c->path;
  int from = path->part[l - 1], to = path->part[l];
  int left = c->problem->layers[l - 1].options[path->option[l - 1]].form;
  int right = c->problem->layers[l].options[path->option[l]].form;
  bd_layers_criteria one;
  if (from == to) {
    one = bd_layers_criteria_both(
        s, cut->change[bd_layers_change_at(c->problem, path->mode[l], left, right)]);
    bd_layers_criteria_add(s, &c->sum[to % s->stages], &one);
    return;
  }
  int hand = bd_layers_hand_at(c->problem, path->mode[l - 1], left, path->mode[l], right);
  one = bd_layers_criteria_both(s, cut->send[hand]);
  bd_layers_criteria_add(s, &c->sum[from % s->stages], &one);
  one = bd_layers_criteria_both(s, cut->receive[hand]);
  bd_layers_criteria_add(s, &c->sum[to % s->stages], &one);
}

static void add_layer(climbing *c, int l) {
  const bd_layers_setting *s = c->p->setting;
  int part = c->path.part[l], stage = part % s->stages, mode = c->path.mode[l];
  const bd_layers_option *o = &c->problem->layers[l].options[c->path.option[l]];
  bd_layers_criteria_add(s, &c->sum[stage], bd_layers_option_criteria(s, l, c->path.option[l]));
  c->sync[stage] += o->sync_seconds;
  c->fixed[stage] += (double)o->fixed_bytes;
  c->tape[part] += (double)bd_layers_option_held(s, stage, o);
  if (!l || c->path.part[l - 1] != part) {
    const bd_layers_mode *at = &c->problem->modes[mode];
    c->used[at->group] += (double)at->devices / s->chunks;
    c->room[part] = (double)bd_layers_mode_cap(c->problem, mode);
    c->tape[part] += bd_layers_skipped_bytes(s, l, part, mode);
  }
  if (l) add_boundary(c, l);
}

// Sums of the path, which prices are of.
static void add_path(climbing *c) {
  int stages = c->p->setting->stages;
  for (int i = 0; i < stages; i++) {
    c->sum[i] = (bd_layers_criteria){{0}};
    c->sync[i] = c->fixed[i] = 0;
  }
  for (int i = 0; i < c->p->parts; i++)
    c->tape[i] = 0;
  for (int g = 0; g < c->problem->group_count; g++)
    c->used[g] = 0;
  for (int l = 0; l < c->problem->layer_count; l++)
    add_layer(c, l);
}

static double gradient_of(const climbing *c, const bd_price *price) {
  const bd_layers_setting *s = c->p->setting;
  switch (price->kind) {
  case BD_PRICE_REST:
  case BD_PRICE_SECOND:
    return c->sum[price->of].at[price->criterion] * bd_layers_price_factor(s, price);
  case BD_PRICE_SYNC:
    return c->sync[price->of];
  case BD_PRICE_BYTES:
    return (c->tape[price->of] + c->fixed[price->of % s->stages] - c->room[price->of]) /
           c->p->largest_cap;
  default:
    break;
  }
  int count = c->problem->groups[price->of].count;
  return count ? (c->used[price->of] - count) / count : 0;
}

// The nearest prices of a kind that add up to 1: what would be negative is 0, and the others are
// shifted, until none is (Michelot, Journal of Optimization Theory and Applications 50, 1986).
static void project(bd_layers_prices *p, bd_price_kind kind) {
  double shift = -INFINITY, total = 0;
  for (;;) {
    double sum = 0;
    int count = 0;
    for (int i = 0; i < p->price_count; i++)
      if (p->price[i].kind == kind && p->price[i].value > shift) {
        sum += p->price[i].value;
        count++;
      }
    if (!count || (sum - 1) / count <= shift + ROUNDING) break;
    shift = (sum - 1) / count;
  }
  if (!isfinite(shift)) return;
  for (int i = 0; i < p->price_count; i++)
    if (p->price[i].kind == kind) total += p->price[i].value = fmax(0, p->price[i].value - shift);
  for (int i = 0; i < p->price_count; i++)
    if (p->price[i].kind == kind) p->price[i].value /= total;
}

// Gradients without units, those of prices that add up to 1 around their mean. Returns the square
// of their length.
static double read_gradients(climbing *c, double scale) {
  bd_layers_prices *p = c->p;
  double mean[BD_PRICES_SHARED] = {0}, square = 0;
  for (int i = 0; i < p->price_count; i++) {
    bd_price *price = &p->price[i];
    price->gradient = gradient_of(c, price);
    if (price->kind < BD_PRICES_SHARED) mean[price->kind] += price->value * price->gradient;
  }
  for (int i = 0; i < p->price_count; i++) {
    bd_price *price = &p->price[i];
    if (price->kind < BD_PRICES_SHARED)
      price->gradient = (price->gradient - mean[price->kind]) / scale;
    price->direction = price->gradient + OF_LAST_STEP * price->direction;
    if (price->value <= 0 && price->direction < 0) price->direction = 0;
    square += price->direction * price->direction;
  }
  return square;
}

static void step(climbing *c, double length, double scale) {
  bd_layers_prices *p = c->p;
  for (int i = 0; i < p->price_count; i++) {
    bd_price *price = &p->price[i];
    double by = length * price->direction / (price->kind < BD_PRICES_SHARED ? scale : 1);
    price->value += by;
    if (price->kind >= BD_PRICES_SHARED) price->value = fmax(0, price->value);
  }
  for (int kind = 0; kind < BD_PRICES_SHARED; kind++)
    project(p, (bd_price_kind)kind);
}

// Keeps the prices of the highest bound; whether it is much higher.
static bool keep_highest(bd_layers_prices *p, double bound) {
  bool much = bound > p->bound + MUCH_HIGHER * p->bound;
  if (bound <= p->bound) return false;
  p->bound = bound;
  for (int i = 0; i < p->price_count; i++)
    p->price[i].best = p->price[i].value;
  return much;
}

static void climb(climbing *c, double target, int rounds,
                  void (*visit)(void *user, const bd_priced_path *path), void *user) {
  bd_layers_prices *p = c->p;
  double share = 1;
  int since = 0;
  for (int round = 0; round < rounds && p->bound < target && share > LEAST_STEP; round++) {
    bd_layers_prices_apply(p);
    double bound = bd_priced_path_least(p);
    // Whether there is a path does not depend on the prices; sums under huge ones overflow.
    bool none = isinf(bound) && bound > 0 && !round;
    if (none || bound > p->ceiling) p->bound = INFINITY;
    if (!isfinite(bound) || isinf(p->bound)) return;
    since = keep_highest(p, bound) ? 0 : since + 1;
    if (since >= PATIENCE) {
      share /= 2;
      since = 0;
    }
    bd_priced_path_trace(p, &c->path);
    if (visit) visit(user, &c->path);
    add_path(c);
    double aim = fmin(target, p->bound > 0 ? AIM * p->bound : FIRST_AIM * p->ceiling);
    double square = aim > bound ? read_gradients(c, aim) : 0;
    double length = share * (aim - bound) / square;
    if (!(square > 0) || !isfinite(length)) return;
    step(c, length, aim);
  }
}

void bd_layers_prices_climb(bd_ctx *ctx, bd_layers_prices *p, double target, int rounds,
                            void (*visit)(void *user, const bd_priced_path *path), void *user) {
  const bd_layers_problem *problem = p->setting->problem;
  if (!p->to_go) return;
  int stages = p->setting->stages;
  climbing c = {.p = p, .problem = problem};
  c.path = bd_priced_path_new(ctx, problem->layer_count);
  c.sum = BD_NEW_ARRAY(ctx->arena, bd_layers_criteria, stages);
  c.sync = BD_NEW_ARRAY(ctx->arena, double, stages);
  c.fixed = BD_NEW_ARRAY(ctx->arena, double, stages);
  c.tape = BD_NEW_ARRAY(ctx->arena, double, p->parts);
  c.room = BD_NEW_ARRAY(ctx->arena, double, p->parts);
  c.used = BD_NEW_ARRAY(ctx->arena, double, problem->group_count);
  climb(&c, target, rounds, visit, user);
  p->ready = false;
  for (int i = 0; i < p->price_count; i++)
    p->price[i].value = p->price[i].best;
  if (!isfinite(p->bound)) return;
  bd_layers_prices_apply(p);
  (void)bd_priced_path_least(p);
}
