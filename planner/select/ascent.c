#include "planner/select/ascent.h"

#include <math.h>
#include <string.h>

enum {
  PASSES = 5,    // of messages, per step
  PATIENCE = 20, // steps without a better bound until steps become shorter
};

// Gains are parts of the bound; `memory` is what part of a direction is that of the step before.
static const double first_gain = 0.1, least_gain = 1e-6, again_gain = 0.01;
static const double memory = 0.7, shorter = 0.6;
// Of a group of passes: less is not worth waiting for.
static const double settled_rise = 1e-5;

bd_select_ascent *bd_select_ascent_create(bd_ctx *ctx, const bd_select_model *m,
                                          const double *price) {
  bd_arena *arena = ctx->arena;
  bd_select_ascent *a = BD_NEW(arena, bd_select_ascent);
  a->model = m;
  a->loose = *m;
  a->loose.points = 0;
  a->loose.first = BD_NEW_ARRAY(arena, int, m->nodes);
  a->loose.last = BD_NEW_ARRAY(arena, int, m->nodes);
  a->dual = bd_select_dual_create(ctx, m);
  a->free = bd_select_state_create(ctx, &a->loose);
  a->excess = BD_NEW_ARRAY(arena, double, m->points + 1);
  a->direction = BD_NEW_ARRAY(arena, double, m->points);
  a->best_price = BD_NEW_ARRAY(arena, double, m->points);
  a->bound = -INFINITY;
  if (!price) return a;
  memcpy(a->dual->price, price, (size_t)m->points * sizeof *price);
  bd_select_dual_reprice(a->dual);
  return a;
}

double bd_select_ascent_step_work(const bd_select_model *m) {
  double entries = 0;
  for (int e = 0; e < m->edges; e++)
    entries += (double)bd_select_choices(m, m->low[e]) * bd_select_choices(m, m->high[e]);
  return 2 * PASSES * entries;
}

static double share(const bd_select_ascent *a, double part) {
  return part * fabs(a->bound) + 1e-9;
}

// Returns how much the bound rose.
static double note_bound(bd_select_ascent *a) {
  double bound = bd_select_dual_bound(a->dual, NULL);
  double rise = bound - a->bound;
  if (!(rise > 0)) return 0;
  a->bound = bound;
  memcpy(a->best_price, a->dual->price, (size_t)a->model->points * sizeof *a->best_price);
  return rise;
}

void bd_select_ascent_settle(bd_select_ascent *a, int passes, bd_deadline deadline) {
  enum { GROUP = 10 };
  for (int pass = 0; pass < passes && (!pass || !bd_deadline_passed(deadline)); pass += GROUP) {
    for (int k = 0; k < GROUP && (!pass || !bd_deadline_passed(deadline)); k++)
      bd_select_dual_pass(a->dual);
    if (note_bound(a) <= share(a, settled_rise)) break;
  }
  if (a->bound == -INFINITY) note_bound(a);
  a->gain = share(a, first_gain);
}

void bd_select_ascent_copy(bd_select_ascent *a, const bd_select_ascent *from) {
  size_t points = (size_t)a->model->points * sizeof *a->best_price;
  memcpy(a->best_price, from->best_price, points);
  memcpy(a->dual->price, from->dual->price, points);
  bd_select_dual_reprice(a->dual);
  bd_select_dual_copy(a->dual, from->dual);
  a->bound = from->bound;
  a->gain = from->gain;
}

// Usage less room, of the choice that disregards memory.
static void measure(bd_select_ascent *a) {
  const bd_select_model *m = a->model;
  memset(a->excess, 0, ((size_t)m->points + 1) * sizeof *a->excess);
  for (int i = 0; i < m->nodes; i++) {
    double usage = (double)m->usage[m->start[i] + a->free->choice[i]];
    a->excess[m->first[i]] += usage;
    a->excess[m->last[i]] -= usage;
  }
  for (int k = 1; k < m->points; k++)
    a->excess[k] += a->excess[k - 1];
  for (int k = 0; k < m->points; k++)
    a->excess[k] -= (double)m->room[k];
}

static void move_prices(bd_select_ascent *a) {
  const bd_select_model *m = a->model;
  double *price = a->dual->price, square = 0;
  measure(a);
  for (int k = 0; k < m->points; k++) {
    double slope = price[k] <= 0 && a->excess[k] < 0 ? 0 : a->excess[k];
    double *direction = &a->direction[k];
    *direction = memory * *direction + (1 - memory) * slope;
    if (price[k] <= 0 && *direction < 0) *direction = 0;
    square += *direction * *direction;
  }
  if (square == 0) return;
  double length = a->gain / square;
  for (int k = 0; k < m->points; k++)
    price[k] = fmax(0, price[k] + length * a->direction[k]);
  bd_select_dual_reprice(a->dual);
}

void bd_select_ascent_return(bd_select_ascent *a) {
  size_t bytes = (size_t)a->model->points * sizeof *a->direction;
  memcpy(a->dual->price, a->best_price, bytes);
  memset(a->direction, 0, bytes);
  bd_select_dual_reprice(a->dual);
  for (int k = 0; k < PASSES; k++)
    bd_select_dual_pass(a->dual);
}

void bd_select_ascent_step(bd_select_ascent *a, bd_deadline deadline) {
  for (int k = 0; k < PASSES && !bd_deadline_passed(deadline); k++)
    bd_select_dual_pass(a->dual);
  double rise = note_bound(a);
  bd_select_state_decode(a->free, a->dual);
  a->since++;
  if (rise > a->gain / 4) {
    a->since = 0;
    a->gain *= 1.1;
  }
  if (a->since > PATIENCE) {
    // Shorter steps from the best prices; long ones again when they had become short.
    a->since = 0;
    a->gain = a->gain * shorter < share(a, least_gain) ? share(a, again_gain) : a->gain * shorter;
    bd_select_ascent_return(a);
  }
  move_prices(a);
}

void bd_select_ascent_shake(bd_select_ascent *a) {
  a->gain = share(a, first_gain);
  a->since = 0;
}
