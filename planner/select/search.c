#include "planner/select/dominate.h"
#include "planner/select/island.h"
#include "planner/select/select.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

enum {
  ISLANDS = 2,
  GUEST_EVERY = 4,     // rounds
  LEAST_ROUNDS = 100,  // without progress until the search ends
  RESTART_ROUNDS = 40, // without progress until the island that is behind starts over
};

typedef struct search {
  const bd_select_problem *p;
  const bd_select_model *model;
  bd_select_island *island[ISLANDS];
  double deadline;
  int threads;
  int round, progress; // the round of the last improvement
  int stale[ISLANDS];  // rounds since the island's choice was restarted or became better
  double cost[ISLANDS], best_cost, bound;
  const int *best;
} search;

typedef struct task {
  bd_select_island *island;
  const int *guest;
  double deadline;
} task;

static void *run_task(void *argument) {
  task *t = argument;
  bd_select_island_round(t->island, t->guest, t->deadline);
  return NULL;
}

// A round of every island. Which thread runs one does not matter to it.
static void run_round(search *s) {
  task tasks[ISLANDS];
  pthread_t thread[ISLANDS];
  bool started[ISLANDS] = {false};
  for (int k = 0; k < ISLANDS; k++) {
    bool visit = s->round % GUEST_EVERY == GUEST_EVERY - 1 && s->cost[k] > s->best_cost;
    tasks[k] = (task){s->island[k], visit ? s->best : NULL, s->deadline};
  }
  for (int k = 1; k < ISLANDS && k < s->threads; k++)
    started[k] = pthread_create(&thread[k], NULL, run_task, &tasks[k]) == 0;
  for (int k = 0; k < ISLANDS; k++)
    if (!started[k]) run_task(&tasks[k]);
  for (int k = 0; k < ISLANDS; k++)
    if (started[k]) pthread_join(thread[k], NULL);
}

// Costs are integers: so is the least of them.
static bool proven(const search *s) {
  return ceil(s->bound) >= s->best_cost;
}

static void take_stock(search *s) {
  for (int k = 0; k < ISLANDS; k++) {
    double cost;
    const int *best = bd_select_island_best(s->island[k], &cost);
    s->stale[k] = cost < s->cost[k] ? 0 : s->stale[k] + 1;
    s->cost[k] = cost;
    s->bound = fmax(s->bound, bd_select_island_bound(s->island[k]));
    if (cost >= s->best_cost) continue;
    s->best_cost = cost;
    s->best = best;
    s->progress = s->round;
  }
  for (int k = 0; k < ISLANDS; k++) {
    if (s->stale[k] < RESTART_ROUNDS) continue;
    s->stale[k] = 0;
    bd_select_island_restart(s->island[k]);
  }
}

static void run_search(bd_ctx *ctx, search *s) {
  for (int k = 0; k < ISLANDS; k++) {
    s->island[k] = bd_select_island_create(ctx, s->model, (uint64_t)k + 1);
    s->best = bd_select_island_best(s->island[k], &s->cost[k]);
    s->best_cost = s->cost[k];
  }
  while (!proven(s) && bd_select_now() < s->deadline &&
         s->round - s->progress < LEAST_ROUNDS + s->progress) {
    run_round(s);
    take_stock(s);
    s->round++;
  }
}

// Fails when the least usages exceed the limit; writes the strategies of least usage.
static bd_status check_room(bd_ctx *ctx, const char *file, const bd_select_problem *p,
                            int *choice) {
  for (int i = 0; i < p->nodes; i++) {
    const int64_t *usage = p->usage + p->start[i];
    choice[i] = 0;
    for (int s = 1; s < bd_select_strategies(p, i); s++)
      if (usage[s] < usage[choice[i]]) choice[i] = s;
  }
  int64_t time = 0, peak = bd_select_peak(ctx, p, choice, &time);
  if (peak <= p->limit) return BD_OK;
  return bd_fail(ctx, BD_INFEASIBLE, bd_loc_file(file),
                 "at time %lld the nodes alive use at least %lld, over the limit of %lld",
                 (long long)time, (long long)peak, (long long)p->limit);
}

// The model after pruning. When some node keeps no strategy, every choice has a forbidden cost:
// then nothing is forbidden, and such costs are merely high.
static const bd_select_model *reduce(bd_ctx *ctx, const bd_select_problem *p) {
  enum { DOMINANCE_ROUNDS = 4 };
  const double work = 1e9;
  bd_select_times times = bd_select_find_times(ctx, p);
  bd_select_domain domain = bd_select_domain_create(ctx, p);
  double forbid = (double)BD_SELECT_FORBIDDEN;
  if (!bd_select_domain_prune(ctx, p, &times, forbid, &domain)) {
    forbid = INFINITY;
    domain = bd_select_domain_create(ctx, p);
    bool some = bd_select_domain_prune(ctx, p, &times, forbid, &domain);
    assert(some); // the least usages fit
    (void)some;
  }
  const bd_select_model *model = bd_select_model_create(ctx, p, &times, &domain, forbid);
  for (int k = 0; k < DOMINANCE_ROUNDS; k++) {
    if (bd_select_dominate(ctx, p, model, work, &domain) == 0) break;
    model = bd_select_model_create(ctx, p, &times, &domain, forbid);
  }
  return model;
}

bd_status bd_select_solve(bd_ctx *ctx, const char *file, const bd_select_problem *p,
                          double limit_seconds, int threads, bd_select_answer *out) {
  double begun = bd_select_now();
  *out = (bd_select_answer){.choice = BD_NEW_ARRAY(ctx->arena, int, p->nodes)};
  BD_TRY(check_room(ctx, file, p, out->choice));
  search s = {.p = p,
              .model = reduce(ctx, p),
              .deadline = begun + limit_seconds,
              .threads = threads,
              .bound = -INFINITY};
  run_search(ctx, &s);
  bd_select_model_expand(s.model, p->nodes, s.best, out->choice);
  out->cost = bd_select_cost(p, out->choice);
  out->peak = bd_select_peak(ctx, p, out->choice, NULL);
  out->seconds = bd_select_now() - begun;
  out->limited = !proven(&s) && out->seconds >= limit_seconds;
  double bound = ceil(s.bound);
  out->bound = bound < (double)out->cost ? (bound > 0 ? (int64_t)bound : 0) : out->cost;
  return BD_OK;
}
