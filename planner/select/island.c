#include "planner/select/island.h"
#include "planner/select/improve.h"

#include <math.h>
#include <string.h>
#include <time.h>

enum {
  POOL = 4,           // proposals that are fused
  FIRST_PASSES = 100, // of messages, before prices move
  PASSES = 5,         // of messages, per step of the prices
  STEPS = 4,          // of the prices, per round
  PATIENCE = 20,      // steps without a better bound until steps become shorter
};

// How far a step of the prices would raise the bound if it were linear, in parts of the bound.
static const double first_gain = 0.1, least_gain = 1e-4, again_gain = 0.05;
static const double memory = 0.7; // what part of a direction is that of the step before

struct bd_select_island {
  const bd_select_model *model;
  bd_select_model loose; // the model without memory
  bd_select_dual *dual;
  bd_select_state *fitting, *free; // what messages propose, with and without regard to memory
  bd_select_state *state;
  bd_select_improver *improver;
  int *pool[POOL + 1]; // the last belongs to a guest
  int proposals, filled;
  double *usage, *direction, *best_price; // of each point
  double bound, gain;
  int since; // steps since the bound rose
  int *best;
  double best_cost;
  double step_work; // matrix entries that a step of the prices looks at
  bool begun;
};

double bd_select_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

bd_select_island *bd_select_island_create(bd_ctx *ctx, const bd_select_model *m, uint64_t seed) {
  bd_arena *arena = ctx->arena;
  bd_select_island *island = BD_NEW(arena, bd_select_island);
  island->model = m;
  island->loose = *m;
  island->loose.points = 0;
  island->loose.first = BD_NEW_ARRAY(arena, int, m->nodes);
  island->loose.last = BD_NEW_ARRAY(arena, int, m->nodes);
  island->dual = bd_select_dual_create(ctx, m);
  island->fitting = bd_select_state_create(ctx, m);
  island->free = bd_select_state_create(ctx, &island->loose);
  island->state = bd_select_state_create(ctx, m);
  island->usage = BD_NEW_ARRAY(arena, double, m->points + 1);
  island->direction = BD_NEW_ARRAY(arena, double, m->points);
  island->best_price = BD_NEW_ARRAY(arena, double, m->points);
  island->improver = bd_select_improver_create(ctx, island->state, island->best_price, seed);
  for (int k = 0; k < POOL; k++)
    island->pool[k] = BD_NEW_ARRAY(arena, int, m->nodes);
  island->best = BD_NEW_ARRAY(arena, int, m->nodes);
  memcpy(island->best, island->state->choice, (size_t)m->nodes * sizeof *island->best);
  island->best_cost = island->state->cost;
  island->bound = -INFINITY;
  for (int e = 0; e < m->edges; e++) {
    island->step_work +=
        2.0 * PASSES * bd_select_choices(m, m->low[e]) * bd_select_choices(m, m->high[e]);
  }
  return island;
}

const int *bd_select_island_best(const bd_select_island *island, double *out_cost) {
  *out_cost = island->best_cost;
  return island->best;
}

double bd_select_island_bound(const bd_select_island *island) {
  return island->bound;
}

static void note_best(bd_select_island *island) {
  if (island->state->cost >= island->best_cost) return;
  island->best_cost = island->state->cost;
  memcpy(island->best, island->state->choice, (size_t)island->model->nodes * sizeof(int));
}

// Returns how much the bound rose.
static double note_bound(bd_select_island *island) {
  double bound = bd_select_dual_bound(island->dual, NULL);
  double rise = bound - island->bound;
  if (rise <= 0) return 0;
  island->bound = bound;
  memcpy(island->best_price, island->dual->price, (size_t)island->model->points * sizeof(double));
  return rise;
}

static void propose(bd_select_island *island) {
  size_t bytes = (size_t)island->model->nodes * sizeof(int);
  bd_select_state_decode(island->free, island->dual);
  bd_select_state_decode(island->fitting, island->dual);
  memcpy(island->pool[island->proposals++ % POOL], island->free->choice, bytes);
  memcpy(island->pool[island->proposals++ % POOL], island->fitting->choice, bytes);
  island->filled = island->proposals < POOL ? island->proposals : POOL;
  if (island->fitting->cost < island->state->cost)
    bd_select_state_set(island->state, island->fitting->choice);
}

// Passes messages at zero prices until the bound hardly rises.
static void begin(bd_select_island *island, double deadline) {
  enum { GROUP = 10 };
  for (int pass = 0; pass < FIRST_PASSES && bd_select_now() < deadline; pass += GROUP) {
    for (int k = 0; k < GROUP && bd_select_now() < deadline; k++)
      bd_select_dual_pass(island->dual);
    if (note_bound(island) <= 1e-9 * fabs(island->bound)) break;
  }
  island->gain = first_gain * fabs(island->bound) + 1e-9;
  propose(island);
  island->begun = true;
}

void bd_select_island_restart(bd_select_island *island) {
  bd_select_state_set(island->state, island->fitting->choice);
}

// Usage less room of the choice that disregards memory, in `usage`.
static void measure(bd_select_island *island) {
  const bd_select_model *m = island->model;
  memset(island->usage, 0, ((size_t)m->points + 1) * sizeof *island->usage);
  for (int i = 0; i < m->nodes; i++) {
    double usage = (double)m->usage[m->start[i] + island->free->choice[i]];
    island->usage[m->first[i]] += usage;
    island->usage[m->last[i]] -= usage;
  }
  for (int k = 1; k < m->points; k++)
    island->usage[k] += island->usage[k - 1];
  for (int k = 0; k < m->points; k++)
    island->usage[k] -= (double)m->room[k];
}

// Moves prices along the direction by which the bound would gain `gain` if it were linear.
static void move_prices(bd_select_island *island) {
  const bd_select_model *m = island->model;
  bd_select_dual *dual = island->dual;
  double square = 0;
  measure(island);
  for (int k = 0; k < m->points; k++) {
    double slope = dual->price[k] <= 0 && island->usage[k] < 0 ? 0 : island->usage[k];
    double *direction = &island->direction[k];
    *direction = memory * *direction + (1 - memory) * slope;
    if (dual->price[k] <= 0 && *direction < 0) *direction = 0;
    square += *direction * *direction;
  }
  if (square > 0) {
    double length = island->gain / square;
    for (int k = 0; k < m->points; k++)
      dual->price[k] = fmax(0, dual->price[k] + length * island->direction[k]);
  }
  bd_select_dual_reprice(dual);
}

// Goes back to the best prices, with shorter steps; with long ones when they had become short.
static void go_back(bd_select_island *island) {
  const bd_select_model *m = island->model;
  island->since = 0;
  island->gain *= memory;
  if (island->gain < least_gain * fabs(island->bound))
    island->gain = again_gain * fabs(island->bound) + 1e-9;
  memcpy(island->dual->price, island->best_price, (size_t)m->points * sizeof(double));
  memset(island->direction, 0, (size_t)m->points * sizeof(double));
  bd_select_dual_reprice(island->dual);
  for (int k = 0; k < PASSES; k++)
    bd_select_dual_pass(island->dual);
}

static void step(bd_select_island *island, const int *guest, double deadline) {
  enum { LEAST_WORK = 1000000, FUSE_CAP = 1000000, SEARCH_CAP = 100000 };
  for (int k = 0; k < PASSES && bd_select_now() < deadline; k++)
    bd_select_dual_pass(island->dual);
  double rise = note_bound(island);
  propose(island);
  island->pool[POOL] = (int *)guest;
  int count = guest && island->filled == POOL ? POOL + 1 : island->filled;
  bd_select_fuse(island->improver, (const int *const *)island->pool, count, FUSE_CAP, deadline);
  bd_select_improve(island->improver, fmax(island->step_work, LEAST_WORK), SEARCH_CAP, deadline);
  note_best(island);
  island->since++;
  if (rise > island->gain / 4) {
    island->since = 0;
    island->gain *= 1.1;
  }
  if (island->since > PATIENCE) go_back(island);
  move_prices(island);
}

void bd_select_island_round(bd_select_island *island, const int *guest, double deadline) {
  if (!island->begun) begin(island, deadline);
  for (int k = 0; k < STEPS && bd_select_now() < deadline; k++)
    step(island, k == 0 ? guest : NULL, deadline);
  note_best(island);
}
