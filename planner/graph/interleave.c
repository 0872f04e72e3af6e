#include "planner/graph/interleave.h"
#include "planner/graph/ascent.h"
#include "planner/graph/plan.h"
#include "planner/graph/repair.h"
#include "planner/graph/weave.h"
#include <math.h>
#include <stdlib.h>

enum { TUPLE_LIMIT = 1 << 14, FIRST_ROUNDS = 25, ROUNDS = 300, MOVES = 100000 };

// A mode for every stage.
typedef struct tuple {
  double bound;
  int number; // in the order of enumeration
  int *mode;
} tuple;

typedef struct interleaving {
  bd_ctx *ctx;
  const bd_layers_setting *setting;
  const bd_layers_problem *problem;
  const bd_layers_effort *effort;
  bd_layers_prices prices; // of the tuple at hand
  bd_weaving weaving;      // its cutoff is that of the best plan
  double least;            // no plan of tuples that are done takes less
  bool enumerated;         // all tuples are known
  bool constructed;
  bd_layers_plan plan; // the best, when it is constructed
  int tuple_count, tuple_capacity;
  tuple *tuples;
} interleaving;

static void add_tuple(interleaving *n, const int *mode) {
  bd_weaving_spend(&n->weaving, n->problem->layer_count);
  double bound = bd_weaving_take(&n->weaving, mode);
  size_t stages = (size_t)n->setting->stages;
  if (bound >= n->weaving.cutoff) return;
  if (n->tuple_count == TUPLE_LIMIT) {
    n->least = fmin(n->least, bd_layers_setting_bound(n->setting));
    return;
  }
  if (n->tuple_count == n->tuple_capacity) {
    int wanted = n->tuple_capacity ? 2 * n->tuple_capacity : 64;
    n->tuples = bd_arena_grow(n->ctx->arena, n->tuples, (size_t)n->tuple_count, (size_t)wanted,
                              sizeof *n->tuples);
    n->tuple_capacity = wanted;
  }
  int *copy = bd_arena_grow(n->ctx->arena, mode, stages, stages, sizeof *mode);
  n->tuples[n->tuple_count] = (tuple){bound, n->tuple_count, copy};
  n->tuple_count++;
}

// Modes of the stages from `stage` on, as far as there are devices.
static void add_tuples(interleaving *n, int *mode, int stage, int64_t *used) {
  if (stage == n->setting->stages) {
    add_tuple(n, mode);
    return;
  }
  for (int k = 0; k < n->problem->mode_count && n->tuple_count < TUPLE_LIMIT && !n->weaving.stopped;
       k++) {
    const bd_layers_mode *at = &n->problem->modes[k];
    bd_weaving_spend(&n->weaving, 1);
    mode[stage] = k;
    used[at->group] += at->devices;
    if (used[at->group] <= n->problem->groups[at->group].count)
      add_tuples(n, mode, stage + 1, used);
    used[at->group] -= at->devices;
  }
}

static int by_bound(const void *left, const void *right) {
  const tuple *a = left, *b = right;
  if (a->bound != b->bound) return a->bound < b->bound ? -1 : 1;
  return a->number < b->number ? -1 : a->number > b->number;
}

static void visit(void *user, const bd_priced_path *path) {
  bd_layers_repair_path(user, path);
}

// Moves the prices of a tuple, and keeps the best plan near them; `moves` of annealing.
static void price_tuple(interleaving *n, tuple *at, int rounds, int moves) {
  bd_owned held;
  bd_arena *kept = n->ctx->arena, *arena = bd_ctx_open_arena(n->ctx, &held);
  bd_layers_repair repair = {
      .setting = n->setting, .prices = &n->prices, .effort = n->effort, .cutoff = INFINITY};
  n->ctx->arena = arena;
  bd_layers_repair_open(n->ctx, &repair);
  bd_layers_prices_restart(&n->prices, at->mode);
  bd_layers_prices_climb(n->ctx, &n->prices, n->weaving.cutoff, rounds, visit, &repair);
  at->bound = fmax(at->bound, n->prices.bound);
  if (moves && at->bound < n->weaving.cutoff) bd_layers_repair_anneal(n->ctx, &repair, moves);
  n->ctx->arena = kept;
  if (repair.cutoff < n->weaving.cutoff) {
    n->weaving.cutoff = repair.cutoff;
    n->constructed = true;
    bd_layers_plan_copy(&repair.best, n->problem->layer_count, &n->plan);
  }
  bd_ctx_close_arena(n->ctx, &held);
}

// A first bound of every tuple, with half of the work at most.
static void price_tuples(interleaving *n) {
  bd_layers_meter *meter = n->effort->meter;
  int64_t most = meter->used + (n->effort->most_work - meter->used) / 2;
  n->prices =
      (bd_layers_prices){.setting = n->setting, .meter = meter, .most_work = n->effort->most_work};
  if (!n->effort->thorough || !n->tuple_count) return;
  n->prices.mode = n->tuples[0].mode;
  bd_layers_prices_open(n->ctx, &n->prices);
  n->plan = bd_layers_plan_new(n->ctx, n->setting);
  for (int i = 0; i < n->tuple_count && n->tuple_count > 1; i++) {
    if (!bd_layers_spend(meter, 0, most)) return;
    if (n->tuples[i].bound < n->weaving.cutoff) price_tuple(n, &n->tuples[i], FIRST_ROUNDS, 0);
  }
}

static void run_tuple(interleaving *n, tuple *at) {
  bd_weaving *w = &n->weaving;
  if (n->prices.to_go) price_tuple(n, at, ROUNDS, MOVES);
  if (at->bound >= w->cutoff) return;
  double before = w->cutoff;
  bd_weaving_take(w, at->mode);
  bd_weaving_run(w);
  if (w->cutoff < before) n->constructed = false;
  if (!w->stopped) at->bound = fmax(at->bound, w->dropped);
}

static void run_tuples(interleaving *n) {
  int64_t used[BD_LAYERS_MAX_GROUPS] = {0};
  int *mode = BD_NEW_ARRAY(n->ctx->arena, int, n->setting->stages);
  add_tuples(n, mode, 0, used);
  n->enumerated = !n->weaving.stopped;
  if (n->tuple_count >= TUPLE_LIMIT) n->least = fmin(n->least, bd_layers_setting_bound(n->setting));
  price_tuples(n);
  if (n->tuple_count) qsort(n->tuples, (size_t)n->tuple_count, sizeof *n->tuples, by_bound);
  // As many tuples as labels of each are looked at.
  for (int i = 0; i < n->tuple_count; i++) {
    tuple *at = &n->tuples[i];
    if (at->bound < n->weaving.cutoff && i < n->effort->labels && !n->weaving.stopped)
      run_tuple(n, at);
    n->least = fmin(n->least, at->bound);
  }
}

bd_status bd_layers_interleave(bd_ctx *ctx, const bd_layers_setting *setting,
                               const bd_layers_effort *effort, double cutoff,
                               bd_layers_outcome *out) {
  interleaving n = {.ctx = ctx,
                    .setting = setting,
                    .problem = setting->problem,
                    .effort = effort,
                    .least = INFINITY};
  bd_weaving_open(ctx, setting, effort, cutoff, &n.prices, &n.weaving);
  *out = (bd_layers_outcome){.seconds = INFINITY};
  run_tuples(&n);
  double least = n.enumerated ? n.least : bd_layers_setting_bound(setting);
  out->bound = fmin(fmin(cutoff, n.weaving.cutoff), least);
  out->cut = n.weaving.stopped;
  out->found = n.weaving.cutoff < cutoff;
  if (!out->found) return BD_OK;
  out->seconds = n.weaving.cutoff;
  if (n.constructed)
    out->plan = n.plan;
  else
    bd_weaving_trace(&n.weaving, &out->plan);
  return BD_OK;
}
