// Which units the slots are counted in, and what to do when they are not fine enough.
#include "ir/base/number.h"
#include "planner/remat/chain_table.h"
#include <math.h>

const char *const bd_chain_words[] = {"forward", "save", "backward", "drop", "loss"};

// What the dynamic program may take: numbers in its table, and operations a second, of which the
// first try gets a share of the limit. Each further one halves the unit.
#define TABLE_NUMBERS 1.5e8
#define OPERATIONS_PER_SECOND 2e8
#define FIRST_SHARE 0.2
enum { LEAST_SLOTS = 16 };

double bd_chain_base(const bd_chain *chain) {
  double time = 0;
  for (int i = 0; i < chain->layers; i++)
    time += chain->forward[i] + chain->backward[i];
  return time;
}

// Slots that divide every size; 1 when all are 0.
static int64_t exact_unit(const bd_chain *chain) {
  int64_t unit = chain->value[chain->layers];
  for (int i = 0; i < chain->layers; i++)
    unit = bd_common_divisor(bd_common_divisor(unit, chain->value[i]), chain->tape[i]);
  return unit ? unit : 1;
}

// The least unit whose table fits.
static int64_t finest_unit(const bd_chain *chain, int64_t budget) {
  double cells = (double)bd_chain_cell(0, chain->layers);
  double unit = ceil((double)budget / fmax(TABLE_NUMBERS / cells, 1));
  int64_t exact = exact_unit(chain);
  return unit > (double)exact ? (int64_t)unit : exact;
}

// How often the finest unit is doubled for a first try that takes little of the limit. Fewer slots
// than LEAST_SLOTS take no less time.
static int first_doublings(const bd_chain *chain, int64_t budget, int64_t finest, double seconds) {
  double layers = chain->layers, cells = layers * (layers + 1) / 2;
  double slots = (double)budget / (double)finest;
  double seconds_per_slot = 2 * cells * (layers + 2) / 3 / OPERATIONS_PER_SECOND;
  int doublings = 0;
  for (; slots >= 2 * LEAST_SLOTS && slots * seconds_per_slot > FIRST_SHARE * seconds; slots /= 2)
    doublings++;
  return doublings;
}

static bd_chain in_units(bd_ctx *ctx, const bd_chain *chain, int64_t unit, bool up) {
  bd_chain out = *chain;
  int64_t add = up ? unit - 1 : 0;
  out.value = BD_NEW_ARRAY(ctx->arena, int64_t, chain->layers + 1);
  out.tape = BD_NEW_ARRAY(ctx->arena, int64_t, chain->layers);
  for (int i = 0; i <= chain->layers; i++)
    out.value[i] = (chain->value[i] + add) / unit;
  for (int i = 0; i < chain->layers; i++)
    out.tape[i] = (chain->tape[i] + add) / unit;
  return out;
}

// The least time of the whole chain, INFINITY where there is none; the steps when there are any and
// they are wanted. False when the deadline came before it was known.
static bool solve_in_units(bd_ctx *ctx, const bd_chain *chain, int64_t unit, bool up,
                           int64_t budget, bd_deadline deadline, double *out_time,
                           bd_remat_steps *out_steps) {
  bd_owned held;
  bd_arena *outer = ctx->arena, *arena = bd_ctx_open_arena(ctx, &held);
  ctx->arena = arena;
  bd_chain scaled = in_units(ctx, chain, unit, up);
  bd_chain_table table;
  bool done = bd_chain_table_fill(ctx, &scaled, budget / unit, deadline, &table);
  ctx->arena = outer;
  if (done) *out_time = bd_chain_row(&table, 0, chain->layers - 1)[table.budget];
  if (done && isfinite(*out_time) && out_steps) bd_chain_table_steps(ctx, &table, out_steps);
  bd_ctx_close_arena(ctx, &held);
  return done;
}

// More than everything kept at once is never used.
static int64_t useful_budget(const bd_chain *chain, int64_t budget) {
  int64_t all = chain->value[0];
  for (int i = 0; i < chain->layers; i++) {
    all += chain->tape[i] + chain->value[i + 1];
    if (all >= budget) return budget;
  }
  return all;
}

// Steps that are sure to fit, and the bound of everything computed once.
static bd_status begin(bd_ctx *ctx, const bd_chain *chain, int64_t budget, bd_remat_answer *out) {
  int64_t peak;
  if (!bd_chain_lean_steps(ctx, chain, budget, &out->steps)) return BD_INFEASIBLE;
  out->bound = bd_chain_base(chain);
  return bd_chain_replay(ctx, chain, &out->steps, &out->cost, &peak);
}

// Sizes rounded up give steps, sizes rounded down a bound. False when the deadline came before.
static bool try_unit(bd_ctx *ctx, const bd_chain *chain, int64_t budget, int64_t unit,
                     bd_deadline deadline, bd_remat_answer *out) {
  bd_remat_steps steps;
  double time;
  bool exact = unit == exact_unit(chain);
  if (!solve_in_units(ctx, chain, unit, true, budget, deadline, &time, &steps)) return false;
  if (time < out->cost || (exact && isfinite(time))) {
    out->cost = time;
    out->steps = steps;
  }
  if (!exact && !solve_in_units(ctx, chain, unit, false, budget, deadline, &time, NULL))
    return false;
  if (isfinite(time)) out->bound = fmax(out->bound, time);
  out->grain = exact ? 1 : (double)unit;
  return true;
}

bd_status bd_chain_solve(bd_ctx *ctx, const bd_chain *chain, int64_t budget, double limit_seconds,
                         const volatile sig_atomic_t *stop, bd_remat_answer *out) {
  double begun = bd_clock_seconds();
  bd_deadline deadline = {begun + limit_seconds, stop};
  budget = useful_budget(chain, budget);
  int64_t finest = finest_unit(chain, budget);
  BD_TRY(begin(ctx, chain, budget, out));
  int k = first_doublings(chain, budget, finest, limit_seconds);
  for (; k >= 0 && !out->cut && out->bound < out->cost; k--) {
    begun = bd_clock_seconds();
    bool done = try_unit(ctx, chain, budget, finest << k, deadline, out);
    // The next try takes twice as long.
    double next = bd_clock_seconds() + 2 * (bd_clock_seconds() - begun);
    out->cut = !done || (k > 0 && (next > deadline.seconds || bd_deadline_stopped(deadline)));
  }
  return BD_OK;
}
