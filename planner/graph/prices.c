#include "planner/graph/prices.h"
#include <math.h>

enum { CELL_LIMIT = 1 << 22, PATIENCE = 6 };
#define LEAST_STEP 0.003
#define ROUNDING 1e-13

// Prices of the first three kinds add up to 1 each; the others are not negative.
typedef enum row_kind {
  ROW_REST,
  ROW_SECOND,
  ROW_SYNC,
  SHARED_KINDS,
  ROW_BYTES = SHARED_KINDS,
  ROW_DEVICES,
} row_kind;

struct bd_price_row {
  row_kind kind;
  int of;        // a stage, a part or a group
  int criterion; // of a stage
  double price, best;
  double gradient, direction;
};
typedef struct bd_price_row price_row;

typedef struct climbing {
  bd_layers_prices *p;
  const bd_layers_problem *problem;
  bd_priced_path path;
  bd_layers_criteria *sum; // per stage
  double *sync, *fixed;    // per stage
  double *tape, *room;     // per part; room: of the cap, less the least workspace
  double *used;            // per group: devices
} climbing;

static bool is_mode_of(const bd_layers_prices *p, int part, int mode) {
  int only = p->mode[part % p->setting->stages];
  return only < 0 || only == mode;
}

static double largest_cap(const bd_layers_problem *problem) {
  double cap = 1;
  for (int g = 0; g < problem->group_count; g++)
    cap = fmax(cap, (double)problem->groups[g].cap_bytes);
  return cap;
}

static void add_row(bd_layers_prices *p, row_kind kind, int of, int criterion, double price) {
  p->rows[p->row_count++] =
      (price_row){.kind = kind, .of = of, .criterion = criterion, .price = price, .best = price};
}

void bd_layers_prices_restart(bd_layers_prices *p, const int *mode) {
  const bd_layers_setting *s = p->setting;
  p->mode = mode;
  p->bound = 0;
  p->ready = false;
  p->row_count = 0;
  if (!p->to_go) return;
  double share = 1.0 / s->stages;
  for (int i = 0; i < s->stages; i++) {
    if (s->schedule == BD_SCHEDULE_ZERO_BUBBLE) {
      add_row(p, ROW_REST, i, 1, share);
      add_row(p, ROW_REST, i, 2, 0);
      add_row(p, ROW_REST, i, 3, 0);
    } else if (s->schedule == BD_SCHEDULE_GPIPE) {
      add_row(p, ROW_REST, i, 1, share);
      add_row(p, ROW_SECOND, i, 2, share);
    } else {
      add_row(p, ROW_REST, i, 0, share);
    }
    add_row(p, ROW_SYNC, i, 0, share);
  }
  for (int i = 0; i < p->parts; i++)
    add_row(p, ROW_BYTES, i, 0, 0);
  for (int g = 0; g < s->problem->group_count; g++)
    add_row(p, ROW_DEVICES, g, 0, 0);
}

// What a criterion counts in a row of its stage.
static double row_factor(const bd_layers_setting *s, const price_row *row) {
  return row->criterion ? 1 : s->micro_batches - 1.0 / s->chunks;
}

static void apply_row(bd_layers_prices *p, const price_row *row, double cap) {
  const bd_layers_setting *s = p->setting;
  int count = row->kind == ROW_DEVICES ? s->problem->groups[row->of].count : 1;
  switch (row->kind) {
  case ROW_REST:
  case ROW_SECOND:
    p->weight[row->of].at[row->criterion] += row->price * row_factor(s, row);
    break;
  case ROW_SYNC:
    p->sync_weight[row->of] = row->price;
    break;
  case ROW_BYTES:
    p->byte[row->of] = row->price / cap;
    p->fixed_byte[row->of % s->stages] += row->price / cap;
    break;
  default:
    p->device[row->of] = count ? row->price / count : 0;
    p->constant += row->price;
  }
}

// Weights as the rows say.
static void apply_rows(bd_layers_prices *p) {
  const bd_layers_setting *s = p->setting;
  double cap = largest_cap(s->problem);
  p->constant = 0;
  for (int i = 0; i < s->stages; i++) {
    p->weight[i] =
        (bd_layers_criteria){{s->schedule == BD_SCHEDULE_ZERO_BUBBLE ? 1 : 1.0 / s->chunks}};
    p->fixed_byte[i] = 0;
  }
  for (int i = 0; i < p->row_count; i++)
    apply_row(p, &p->rows[i], cap);
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
  const bd_schedule_hold *hold = &s->hold[stage];
  double cost = p->sync_weight[stage] * o->sync_seconds;
  for (int i = 0; i < s->criteria; i++)
    cost += p->weight[stage].at[i] * c->at[i];
  double held = (double)hold->tapes * (double)o->micro_batch_bytes +
                (double)hold->weight_inputs * (double)o->weight_input_bytes;
  return cost + p->fixed_byte[stage] * (double)o->fixed_bytes + p->byte[part] * held;
}

static double room_of(const bd_layers_prices *p, int mode) {
  const bd_layers_problem *problem = p->setting->problem;
  return (double)problem->groups[problem->modes[mode].group].cap_bytes;
}

static double held_bytes(const bd_layers_prices *p, int layer, int part, int mode) {
  const bd_layers_setting *s = p->setting;
  return layer ? (double)s->hold[part % s->stages].tapes *
                     (double)s->problem->cuts[layer].held_bytes[mode]
               : 0;
}

double bd_layers_priced_entry(const bd_layers_prices *p, int layer, int part, int left_mode,
                              int left_form, int mode, int form) {
  const bd_layers_setting *s = p->setting;
  const bd_layers_problem *problem = s->problem;
  const bd_layers_mode *at = &problem->modes[mode];
  double cost = p->device[at->group] * at->devices / s->chunks;
  cost += p->byte[part] * (held_bytes(p, layer, part, mode) - room_of(p, mode));
  if (!part) return cost;
  const bd_layers_cut *cut = &problem->cuts[layer];
  int hand = ((left_mode * p->modes + mode) * p->forms + left_form) * p->forms + form;
  if (!isfinite(cut->send[hand]) || !isfinite(cut->receive[hand])) return INFINITY;
  return cost + cut->send[hand] * p->both_weight[(part - 1) % s->stages] +
         cut->receive[hand] * p->both_weight[part % s->stages];
}

// The least of a layer's options of a mode and a form.
static double least_option(const bd_layers_prices *p, int layer, int part, int mode, int form,
                           int *out_option) {
  const bd_layers_setting *s = p->setting;
  const bd_layers_usable *usable = &s->usable[layer * p->modes + mode];
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

// The least of all under the prices at hand, or minus infinity when there is no time for it.
static double relax(bd_layers_prices *p) {
  const bd_layers_problem *problem = p->setting->problem;
  double least = INFINITY, slack = 0;
  p->ready = false;
  apply_rows(p);
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
  for (int i = 0; i < p->row_count; i++)
    slack += p->rows[i].kind < SHARED_KINDS ? 0 : fabs(p->rows[i].price);
  // Sums of prices are rounded.
  p->constant += ROUNDING * (slack + fabs(least));
  p->ready = isfinite(least);
  return least - p->constant;
}

static void trace(climbing *c) {
  bd_layers_prices *p = c->p;
  move at = {.cost = INFINITY};
  int part = 0;
  for (int n = 0; n < p->modes; n++)
    for (int f = 0; f < p->forms; f++) {
      double cost = p->to_go[bd_layers_priced_at(p, 0, 0, n, f)] +
                    bd_layers_priced_entry(p, 0, 0, 0, 0, n, f);
      if (cost < at.cost) at = (move){cost, false, n, f};
    }
  for (int l = 0; l < c->problem->layer_count; l++) {
    part += at.leaves;
    c->path.part[l] = part;
    c->path.mode[l] = at.mode;
    least_option(p, l, part, at.mode, at.form, &c->path.option[l]);
    at = least_move(p, l, part, at.mode, at.form);
  }
}

// Sums of the path that rows compare.
static void add_layer(climbing *c, int l) {
  const bd_layers_setting *s = c->p->setting;
  int part = c->path.part[l], stage = part % s->stages, mode = c->path.mode[l], F = c->p->forms;
  const bd_layers_option *o = &c->problem->layers[l].options[c->path.option[l]];
  const bd_schedule_hold *hold = &s->hold[stage];
  bd_layers_criteria_add(s, &c->sum[stage], bd_layers_option_criteria(s, l, c->path.option[l]));
  c->sync[stage] += o->sync_seconds;
  c->fixed[stage] += (double)o->fixed_bytes;
  c->tape[part] += (double)hold->tapes * (double)o->micro_batch_bytes +
                   (double)hold->weight_inputs * (double)o->weight_input_bytes;
  if (!l || c->path.part[l - 1] != part) {
    const bd_layers_mode *at = &c->problem->modes[mode];
    c->used[at->group] += (double)at->devices / s->chunks;
    c->room[part] = room_of(c->p, mode);
    c->tape[part] += held_bytes(c->p, l, part, mode);
  }
  if (!l) return;
  int left = c->problem->layers[l - 1].options[c->path.option[l - 1]].form,
      before = c->path.mode[l - 1];
  bd_layers_criteria one;
  if (c->path.part[l - 1] == part) {
    one = bd_layers_criteria_both(s, c->problem->cuts[l].change[(mode * F + left) * F + o->form]);
    bd_layers_criteria_add(s, &c->sum[stage], &one);
    return;
  }
  int hand = ((before * c->p->modes + mode) * F + left) * F + o->form;
  one = bd_layers_criteria_both(s, c->problem->cuts[l].send[hand]);
  bd_layers_criteria_add(s, &c->sum[(part - 1) % s->stages], &one);
  one = bd_layers_criteria_both(s, c->problem->cuts[l].receive[hand]);
  bd_layers_criteria_add(s, &c->sum[stage], &one);
}

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

static double row_gradient(const climbing *c, const price_row *row, double cap) {
  const bd_layers_setting *s = c->p->setting;
  switch (row->kind) {
  case ROW_REST:
  case ROW_SECOND:
    return c->sum[row->of].at[row->criterion] * row_factor(s, row);
  case ROW_SYNC:
    return c->sync[row->of];
  case ROW_BYTES:
    return (c->tape[row->of] + c->fixed[row->of % s->stages] - c->room[row->of]) / cap;
  default:
    break;
  }
  int count = c->problem->groups[row->of].count;
  return count ? (c->used[row->of] - count) / count : 0;
}

// The nearest prices of a kind that add up to 1.
static void project(bd_layers_prices *p, row_kind kind) {
  double shift = -INFINITY, total = 0;
  for (;;) {
    double sum = 0;
    int count = 0;
    for (int i = 0; i < p->row_count; i++)
      if (p->rows[i].kind == kind && p->rows[i].price > shift) {
        sum += p->rows[i].price;
        count++;
      }
    if (!count || (sum - 1) / count <= shift + ROUNDING) break;
    shift = (sum - 1) / count;
  }
  if (!isfinite(shift)) return;
  for (int i = 0; i < p->row_count; i++)
    if (p->rows[i].kind == kind) total += p->rows[i].price = fmax(0, p->rows[i].price - shift);
  for (int i = 0; i < p->row_count; i++)
    if (p->rows[i].kind == kind) p->rows[i].price /= total;
}

// Gradients without units, those of prices that add up to 1 around their mean. Returns the square
// of their length.
static double read_gradients(climbing *c, double scale) {
  bd_layers_prices *p = c->p;
  double mean[SHARED_KINDS] = {0}, square = 0, cap = largest_cap(c->problem);
  for (int i = 0; i < p->row_count; i++) {
    price_row *row = &p->rows[i];
    row->gradient = row_gradient(c, row, cap);
    if (row->kind < SHARED_KINDS) mean[row->kind] += row->price * row->gradient;
  }
  for (int i = 0; i < p->row_count; i++) {
    price_row *row = &p->rows[i];
    if (row->kind < SHARED_KINDS) row->gradient = (row->gradient - mean[row->kind]) / scale;
    row->direction = row->gradient + 0.6 * row->direction;
    if (row->price <= 0 && row->direction < 0) row->direction = 0;
    square += row->direction * row->direction;
  }
  return square;
}

static void step(climbing *c, double length, double scale) {
  bd_layers_prices *p = c->p;
  for (int i = 0; i < p->row_count; i++) {
    price_row *row = &p->rows[i];
    double by = length * row->direction / (row->kind < SHARED_KINDS ? scale : 1);
    row->price = row->kind < SHARED_KINDS ? row->price + by : fmax(0, row->price + by);
  }
  for (int kind = 0; kind < SHARED_KINDS; kind++)
    project(p, (row_kind)kind);
}

static void climb(climbing *c, double target, int rounds,
                  void (*visit)(void *user, const bd_priced_path *path), void *user) {
  bd_layers_prices *p = c->p;
  double share = 1;
  int since = 0;
  for (int round = 0; round < rounds && p->bound < target && share > LEAST_STEP; round++) {
    double bound = relax(p);
    if (!isfinite(bound)) {
      if (bound > 0) p->bound = bound;
      return;
    }
    if (bound > p->ceiling) {
      p->bound = INFINITY;
      return;
    }
    if (bound > p->bound) {
      since = bound > p->bound + 1e-4 * fabs(p->bound) ? 0 : since + 1;
      p->bound = bound;
      for (int i = 0; i < p->row_count; i++)
        p->rows[i].best = p->rows[i].price;
    } else {
      since++;
    }
    if (since >= PATIENCE) {
      share /= 2;
      since = 0;
    }
    trace(c);
    if (visit) visit(user, &c->path);
    add_path(c);
    double aim = fmin(target, 1.1 * fmax(p->bound, bound)), square = read_gradients(c, aim);
    if (square <= 0) return;
    step(c, share * (aim - bound) / square, aim);
  }
}

void bd_layers_prices_climb(bd_ctx *ctx, bd_layers_prices *p, double target, int rounds,
                            void (*visit)(void *user, const bd_priced_path *path), void *user) {
  const bd_layers_problem *problem = p->setting->problem;
  if (!p->to_go) return;
  int layers = problem->layer_count, stages = p->setting->stages;
  climbing c = {.p = p, .problem = problem};
  c.path.part = BD_NEW_ARRAY(ctx->arena, int, layers);
  c.path.option = BD_NEW_ARRAY(ctx->arena, int, layers);
  c.path.mode = BD_NEW_ARRAY(ctx->arena, int, layers);
  c.sum = BD_NEW_ARRAY(ctx->arena, bd_layers_criteria, stages);
  c.sync = BD_NEW_ARRAY(ctx->arena, double, stages);
  c.fixed = BD_NEW_ARRAY(ctx->arena, double, stages);
  c.tape = BD_NEW_ARRAY(ctx->arena, double, p->parts);
  c.room = BD_NEW_ARRAY(ctx->arena, double, p->parts);
  c.used = BD_NEW_ARRAY(ctx->arena, double, problem->group_count);
  climb(&c, target, rounds, visit, user);
  for (int i = 0; i < p->row_count; i++)
    p->rows[i].price = p->rows[i].best;
  if (isfinite(p->bound)) (void)relax(p);
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
  int rows = 4 * s->stages + s->stages * s->chunks + problem->group_count;
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
  p->rows = BD_NEW_ARRAY(ctx->arena, price_row, rows);
  p->ceiling = most_of_all(p);
  bd_layers_prices_restart(p, p->mode);
}
