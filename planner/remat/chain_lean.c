// The least memory of a chain, and schedules that are sure to fit in a budget.
#include "planner/remat/chain_table.h"

static int64_t larger(int64_t a, int64_t b) {
  return a > b ? a : b;
}

// The recursion of the dynamic program with budgets in the place of times: what s..t take at least
// when the tape of layer s is kept.
static int64_t saving(const bd_chain *chain, const int64_t *least, int s, int t) {
  return larger(least[bd_chain_cell(s, s)], chain->tape[s] + least[bd_chain_cell(s + 1, t)]);
}

// The same when the input of layer k is kept, and s..k-1 run again: `left` is what these take.
static int64_t splitting(const bd_chain *chain, const int64_t *least, int64_t left, int k, int t) {
  return larger(chain->value[k] + least[bd_chain_cell(k, t)], left);
}

static int64_t *least_budgets(bd_ctx *ctx, const bd_chain *chain) {
  size_t layers = (size_t)chain->layers;
  int64_t *least = bd_chain_minimum(ctx, chain);
  // Row s holds the same by ascending t, so that the inner loop runs through neighbours.
  int64_t *row = BD_NEW_ARRAY(ctx->arena, int64_t, layers * layers);
  for (int t = 0; t < chain->layers; t++)
    for (int s = t; s >= 0; s--) {
      int64_t *cell = &least[bd_chain_cell(s, t)], *left = row + (size_t)s * layers;
      int64_t best = s < t ? saving(chain, least, s, t) : *cell;
      for (int k = s + 1; k <= t; k++) {
        int64_t now = splitting(chain, least, left[k - 1], k, t);
        best = now < best ? now : best;
      }
      left[t] = *cell = larger(best, *cell);
    }
  return least;
}

int64_t bd_chain_smallest_budget(bd_ctx *ctx, const bd_chain *chain) {
  return least_budgets(ctx, chain)[bd_chain_cell(0, chain->layers - 1)];
}

// What a schedule is made of: keeps a tape wherever the rest still fits, and otherwise runs as few
// layers again as it can.
typedef struct lean {
  const bd_chain *chain;
  const int64_t *least;
} lean;

static int choose(const void *user, int s, int t, int64_t m) {
  const lean *l = user;
  if (saving(l->chain, l->least, s, t) <= m) return s;
  int k = s + 1;
  while (k < t && splitting(l->chain, l->least, l->least[bd_chain_cell(s, k - 1)], k, t) > m)
    k++;
  return k;
}

bool bd_chain_lean_steps(bd_ctx *ctx, const bd_chain *chain, int64_t budget, bd_remat_steps *out) {
  lean l = {chain, least_budgets(ctx, chain)};
  if (l.least[bd_chain_cell(0, chain->layers - 1)] > budget) return false;
  bd_chain_steps(ctx, chain, choose, &l, budget, out);
  return true;
}
