#include "planner/remat/chain_table.h"
#include <math.h>

static int64_t larger(int64_t a, int64_t b) {
  return a > b ? a : b;
}

int64_t *bd_chain_minimum(bd_ctx *ctx, const bd_chain *chain) {
  size_t cells = bd_chain_cell(0, chain->layers);
  int64_t *minimum = BD_NEW_ARRAY(ctx->arena, int64_t, cells);
  const int64_t *value = chain->value;
  for (int t = 0; t < chain->layers; t++) {
    int64_t inner = 0; // the most that two neighbours after the first layer's output take
    minimum[bd_chain_cell(t, t)] = value[t] + chain->tape[t];
    for (int s = t - 1; s >= 0; s--) {
      if (s + 1 < t) inner = larger(inner, value[s + 1] + value[s + 2]);
      minimum[bd_chain_cell(s, t)] = value[t + 1] + larger(value[s + 1], inner);
    }
  }
  return minimum;
}

// best[m] = min(best[m], work + right[m - shift] + left[m]) for m from `first` to the budget.
static void split_at(const bd_chain_table *table, int64_t first, int64_t shift, double work,
                     const double *right, const double *left, double *best) {
  for (int64_t m = larger(first, shift); m <= table->budget; m++) {
    double time = work + right[m - shift] + left[m];
    best[m] = time < best[m] ? time : best[m];
  }
}

static void fill_row(const bd_chain_table *table, int s, int t) {
  const bd_chain *chain = table->chain;
  double *best = bd_chain_row(table, s, t);
  int64_t first = table->minimum[bd_chain_cell(s, t)];
  for (int64_t m = 0; m <= table->budget; m++)
    best[m] = s == t && m >= first ? chain->forward[s] + chain->backward[s] : INFINITY;
  if (s == t) return;
  split_at(table, first, chain->tape[s], 0, bd_chain_row(table, s + 1, t),
           bd_chain_row(table, s, s), best);
  for (int k = s + 1; k <= t; k++)
    split_at(table, first, chain->value[k], table->work[k] - table->work[s],
             bd_chain_row(table, k, t), bd_chain_row(table, s, k - 1), best);
}

bool bd_chain_table_fill(bd_ctx *ctx, const bd_chain *chain, int64_t budget, bd_deadline deadline,
                         bd_chain_table *out) {
  *out = (bd_chain_table){.chain = chain, .budget = budget};
  size_t cells = bd_chain_cell(0, chain->layers);
  out->time = bd_arena_array(ctx->arena, cells, (size_t)(budget + 1) * sizeof *out->time);
  out->minimum = bd_chain_minimum(ctx, chain);
  out->work = BD_NEW_ARRAY(ctx->arena, double, chain->layers + 1);
  for (int i = 0; i < chain->layers; i++)
    out->work[i + 1] = out->work[i] + chain->forward[i];
  for (int t = 0; t < chain->layers; t++)
    for (int s = t; s >= 0; s--) {
      if (bd_deadline_passed(deadline)) return false;
      fill_row(out, s, t);
    }
  return true;
}

// Which split gives the least time of s..t in m slots: k > s keeps the input of layer k, k = s the
// tape of layer s.
static int best_split(const void *user, int s, int t, int64_t m) {
  const bd_chain_table *table = user;
  const bd_chain *chain = table->chain;
  double wanted = bd_chain_row(table, s, t)[m];
  for (int k = s + 1; k <= t; k++) {
    if (m < chain->value[k]) continue;
    double time = table->work[k] - table->work[s];
    time = time + bd_chain_row(table, k, t)[m - chain->value[k]] + bd_chain_row(table, s, k - 1)[m];
    if (time == wanted) return k;
  }
  return s;
}

typedef struct writing {
  bd_ctx *ctx;
  const bd_chain *chain;
  bd_chain_choice choose;
  const void *user;
  bd_remat_steps *out;
} writing;

static void add(const writing *w, bd_chain_step what, int at) {
  bd_remat_steps_add(w->ctx, w->out, what, at);
}

static void add_steps(const writing *w, int s, int t, int64_t m) {
  while (s < t) {
    int k = w->choose(w->user, s, t, m);
    if (k == s) break;
    for (int i = s; i < k; i++) {
      add(w, BD_CHAIN_FORWARD, i);
      if (i > s) add(w, BD_CHAIN_DROP, i);
    }
    add_steps(w, k, t, m - w->chain->value[k]);
    add(w, BD_CHAIN_DROP, k);
    t = k - 1;
  }
  if (s == w->chain->layers - 1) {
    add(w, BD_CHAIN_LOSS, s);
    return;
  }
  add(w, BD_CHAIN_SAVE, s);
  if (s < t) add_steps(w, s + 1, t, m - w->chain->tape[s]);
  add(w, BD_CHAIN_BACKWARD, s);
}

void bd_chain_steps(bd_ctx *ctx, const bd_chain *chain, bd_chain_choice choose, const void *user,
                    int64_t budget, bd_remat_steps *out) {
  writing w = {ctx, chain, choose, user, out};
  *out = (bd_remat_steps){0};
  add_steps(&w, 0, chain->layers - 1, budget);
}

void bd_chain_table_steps(bd_ctx *ctx, const bd_chain_table *table, bd_remat_steps *out) {
  bd_chain_steps(ctx, table->chain, best_split, table, table->budget, out);
}
