#include "planner/select/island.h"
#include "planner/select/improve.h"

#include <math.h>
#include <string.h>

enum {
  POOL = 4,           // proposals that are fused
  FIRST_PASSES = 100, // of messages, before prices move
  STEPS = 4,          // of the prices, per round
  HASTY_STEPS = 2,    // when the time is up before the first round
};

struct bd_select_island {
  const bd_select_model *model;
  bd_select_ascent *ascent;
  bd_select_state *fitting; // what messages propose with regard to memory
  bd_select_state *state;
  bd_select_improver *improver;
  int *pool[POOL];
  int proposals;
  int *best;
  double best_cost;
  double step_work;
};

bd_select_island *bd_select_island_create(bd_ctx *ctx, const bd_select_model *m,
                                          const double *price, uint64_t seed) {
  bd_arena *arena = ctx->arena;
  bd_select_island *island = BD_NEW(arena, bd_select_island);
  island->model = m;
  island->ascent = bd_select_ascent_create(ctx, m, price);
  island->fitting = bd_select_state_create(ctx, m);
  island->state = bd_select_state_create(ctx, m);
  island->improver =
      bd_select_improver_create(ctx, island->state, island->ascent->best_price, seed);
  for (int k = 0; k < POOL; k++)
    island->pool[k] = BD_NEW_ARRAY(arena, int, m->nodes);
  island->best = BD_NEW_ARRAY(arena, int, m->nodes);
  memcpy(island->best, island->state->choice, (size_t)m->nodes * sizeof *island->best);
  island->best_cost = island->state->cost;
  island->step_work = bd_select_ascent_step_work(m);
  return island;
}

const int *bd_select_island_best(const bd_select_island *island, double *out_cost) {
  *out_cost = island->best_cost;
  return island->best;
}

bd_select_ascent *bd_select_island_ascent(bd_select_island *island) {
  return island->ascent;
}

static void note_best(bd_select_island *island) {
  if (island->state->cost >= island->best_cost) return;
  island->best_cost = island->state->cost;
  memcpy(island->best, island->state->choice, (size_t)island->model->nodes * sizeof(int));
}

static void propose(bd_select_island *island) {
  size_t bytes = (size_t)island->model->nodes * sizeof(int);
  bd_select_state_decode(island->fitting, island->ascent->dual);
  memcpy(island->pool[island->proposals++ % POOL], island->ascent->free->choice, bytes);
  memcpy(island->pool[island->proposals++ % POOL], island->fitting->choice, bytes);
  if (island->fitting->cost < island->state->cost)
    bd_select_state_set(island->state, island->fitting->choice);
}

void bd_select_island_restart(bd_select_island *island, bool shake) {
  // Long steps of the prices make for other proposals than before.
  if (shake) bd_select_ascent_shake(island->ascent);
  bd_select_state_decode(island->fitting, island->ascent->dual);
  bd_select_state_set(island->state, island->fitting->choice);
  island->proposals = 0;
}

static void step(bd_select_island *island, const int *guest, bd_deadline deadline) {
  enum { LEAST_WORK = 1000000, FUSE_CAP = 1000000, SEARCH_CAP = 100000 };
  bd_select_ascent_step(island->ascent, deadline);
  propose(island);
  int count = island->proposals < POOL ? island->proposals : POOL;
  const int *pool[POOL + 1];
  for (int k = 0; k < count; k++)
    pool[k] = island->pool[k];
  if (guest) pool[count++] = guest;
  bd_select_fuse(island->improver, pool, count, FUSE_CAP, deadline);
  bd_select_improve(island->improver, fmax(island->step_work, LEAST_WORK), SEARCH_CAP, deadline);
  note_best(island);
}

void bd_select_island_begin(bd_select_island *island, const bd_select_island *from,
                            bd_deadline deadline) {
  if (from)
    bd_select_ascent_copy(island->ascent, from->ascent);
  else
    bd_select_ascent_settle(island->ascent, FIRST_PASSES, deadline);
  bd_select_state_decode(island->ascent->free, island->ascent->dual);
  propose(island);
  note_best(island);
  // Where the time is up before the first round, a choice with as little that is forbidden as a few
  // steps can tell.
  for (int k = 0; k < HASTY_STEPS && !from && bd_deadline_passed(deadline); k++)
    step(island, NULL, BD_NO_DEADLINE);
}

void bd_select_island_round(bd_select_island *island, const int *guest, bd_deadline deadline) {
  for (int k = 0; k < STEPS && !bd_deadline_passed(deadline); k++)
    step(island, k == 0 ? guest : NULL, deadline);
  note_best(island);
}
