// Which units the slots are counted in, and what to do when they are not fine enough.
#include "ir/base/number.h"
#include "planner/remat/chain_table.h"
#include <math.h>

const char *const bd_chain_words[] = {"forward", "save", "backward", "drop", "loss"};

// What the dynamic program may take: numbers in its table, and operations a second, of which half
// the limit's are spent on each of two runs.
#define TABLE_NUMBERS 1.5e8
#define OPERATIONS_PER_SECOND 2e8

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

static int64_t coarse_unit(const bd_chain *chain, int64_t budget, double limit_seconds) {
  double layers = chain->layers, cells = layers * (layers + 1) / 2;
  double operations = cells * (layers + 2) / 3;
  double slots = fmin(TABLE_NUMBERS / cells, OPERATIONS_PER_SECOND * limit_seconds / operations);
  double unit = ceil((double)budget / fmax(slots, 1));
  return unit > 1 ? (int64_t)unit : 1;
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

// The least time of the whole chain, INFINITY also when `stop` came before it was known; the steps
// when there are any and they are wanted.
static double solve_in_units(bd_ctx *ctx, const bd_chain *chain, int64_t unit, bool up,
                             int64_t budget, const volatile sig_atomic_t *stop,
                             bd_remat_steps *out_steps) {
  bd_chain scaled = in_units(ctx, chain, unit, up);
  bd_chain_table table;
  if (!bd_chain_table_fill(ctx, &scaled, budget / unit, stop, &table)) return INFINITY;
  double time = bd_chain_row(&table, 0, chain->layers - 1)[table.budget];
  if (isfinite(time) && out_steps) bd_chain_table_steps(ctx, &table, out_steps);
  return time;
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

// Takes steps that are sure to fit where larger units found none, or dearer ones.
static bd_status improve(bd_ctx *ctx, const bd_chain *chain, int64_t budget, bd_remat_answer *out) {
  bd_remat_steps lean;
  double cost;
  int64_t peak;
  bd_chain_lean_steps(ctx, chain, budget, &lean);
  BD_TRY(bd_chain_replay(ctx, chain, &lean, &cost, &peak));
  if (cost >= out->cost) return BD_OK;
  out->cost = cost;
  out->steps = lean;
  return BD_OK;
}

bd_status bd_chain_solve(bd_ctx *ctx, const bd_chain *chain, int64_t budget, double limit_seconds,
                         const volatile sig_atomic_t *stop, bd_remat_answer *out) {
  if (budget < bd_chain_smallest_budget(ctx, chain)) return BD_INFEASIBLE;
  budget = useful_budget(chain, budget);
  int64_t exact = exact_unit(chain), coarse = coarse_unit(chain, budget, limit_seconds);
  int64_t unit = exact > coarse ? exact : coarse;
  out->cost = out->bound = solve_in_units(ctx, chain, unit, true, budget, stop, &out->steps);
  if (unit == exact && isfinite(out->cost)) return BD_OK;
  out->bound = solve_in_units(ctx, chain, unit, false, budget, stop, NULL);
  // Without one, that of everything computed once.
  if (isinf(out->bound)) out->bound = bd_chain_base(chain);
  out->cut = stop && *stop;
  return improve(ctx, chain, budget, out);
}
