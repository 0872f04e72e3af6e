#include "ir/base/clock.h"
#include "ir/base/workers.h"
#include "planner/select/branch.h"
#include "planner/select/dominate.h"
#include "planner/select/island.h"
#include "planner/select/merge.h"
#include "planner/select/select.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum {
  ISLANDS = 2,
  GUEST_EVERY = 4,                // rounds
  LEAST_ROUNDS = 100,             // without progress until the search ends
  LEAST_ROUNDS_WITHOUT_HOPE = 20, // the same when every choice has a forbidden cost
  RESTART_ROUNDS = 40,            // without progress until an island starts over
};

// Between two times that the model was built anew from what is left of the problem.
typedef struct era {
  const bd_select_model *model;
  bd_select_island *island[ISLANDS];
  double cost[ISLANDS];
  int stale[ISLANDS]; // rounds since the island's choice was restarted or became better
  int *guest;         // the incumbent in terms of the model
  bool has_guest;     // not when it has strategies that were dropped
} era;

typedef struct search {
  const bd_select_problem *p;
  bd_select_times times;
  bd_select_domain domain; // what choices better than the incumbent are made of
  int64_t forbid;          // costs from here on are not in any such choice
  bd_deadline deadline;
  bd_workers *workers;
  int round, progress; // the round of the last improvement
  bd_select_incumbent incumbent;
  int64_t bound; // of what is left
  double *price; // of each point: those of the best bound
  double raised; // that bound, not rounded up
  bool finished; // nothing better is left
} search;

typedef struct islands_round {
  const search *search;
  const era *era;
} islands_round;

static bd_status run_island(bd_ctx *ctx, void *arg, int index) {
  (void)ctx;
  const islands_round *r = arg;
  bool visit = r->era->has_guest && r->search->round % GUEST_EVERY == GUEST_EVERY - 1;
  bd_select_island_round(r->era->island[index], visit ? r->era->guest : NULL, r->search->deadline);
  return BD_OK;
}

// A round of every island. Which thread runs one does not matter to it.
static void run_round(bd_ctx *ctx, const search *s, const era *e) {
  islands_round round = {s, e};
  bd_work work = {.count = ISLANDS, .run = run_island, .arg = &round};
  bd_status status = bd_workers_run(ctx, s->workers, &work);
  assert(status == BD_OK); // islands allocate nothing
  (void)status;
}

static bool proven(const search *s) {
  return s->finished || s->bound >= s->incumbent.cost;
}

static void offer(bd_ctx *ctx, search *s, const era *e, const int *choice) {
  int *full = BD_NEW_ARRAY(ctx->arena, int, s->p->nodes);
  bd_select_model_expand(e->model, s->p->nodes, choice, full);
  if (!bd_select_cheaper(s->p, full, s->incumbent.choice)) return;
  s->incumbent.cost = bd_select_cost(s->p, full);
  memcpy(s->incumbent.choice, full, (size_t)s->p->nodes * sizeof *full);
  s->progress = s->round;
}

// The incumbent in terms of the model, for islands that do not have it.
static void make_guest(const search *s, era *e) {
  const bd_select_model *m = e->model;
  e->has_guest = true;
  for (int i = 0; i < s->p->nodes; i++)
    e->has_guest &= m->fixed[i] < 0 || m->fixed[i] == s->incumbent.choice[i];
  for (int i = 0; i < m->nodes && e->has_guest; i++) {
    int at = m->start[i];
    while (at < m->start[i + 1] && m->strategy[at] != s->incumbent.choice[m->origin[i]])
      at++;
    e->guest[i] = at - m->start[i];
    e->has_guest = at < m->start[i + 1];
  }
}

static void take_stock(bd_ctx *ctx, search *s, era *e) {
  int64_t before = s->incumbent.cost;
  for (int k = 0; k < ISLANDS; k++) {
    double cost;
    const int *best = bd_select_island_best(e->island[k], &cost);
    const bd_select_ascent *ascent = bd_select_island_ascent(e->island[k]);
    bool better = cost < e->cost[k];
    e->stale[k] = better ? 0 : e->stale[k] + 1;
    e->cost[k] = cost;
    bool told = s->incumbent.cost < INT64_MAX; // else no double is to compare with
    if (better && (!told || cost <= (double)(s->incumbent.cost - e->model->constant)))
      offer(ctx, s, e, best);
    int64_t bound = bd_select_model_total(e->model, ascent->bound);
    if (bound > s->bound) s->bound = bound;
    double raised = (double)e->model->constant + ascent->bound;
    if (raised <= s->raised) continue;
    s->raised = raised;
    memcpy(s->price, ascent->best_price, (size_t)s->times.points * sizeof *s->price);
  }
  if (s->incumbent.cost < before) make_guest(s, e);
  for (int k = 0; k < ISLANDS; k++) {
    if (e->stale[k] < RESTART_ROUNDS) continue;
    e->stale[k] = 0;
    // The first island goes on raising the bound.
    bd_select_island_restart(e->island[k], k > 0);
  }
}

// Searches what is left exhaustively when it is small.
static void exhaust(bd_ctx *ctx, search *s) {
  enum { TINY = 600, SMALL = 4000, TINY_NODES = 2000, LEAST_NODES = 64 };
  int left = 0;
  for (int i = 0; i < s->p->nodes; i++)
    left += s->domain.count[i] > 1 ? s->domain.count[i] : 0;
  if (left > (s->round == 0 ? TINY : SMALL)) return;
  int nodes = left <= TINY ? TINY_NODES : s->round > LEAST_NODES ? s->round : LEAST_NODES;
  int64_t before = s->incumbent.cost;
  s->finished = bd_select_branch(ctx, s->p, &s->times, &s->domain, s->price, nodes, s->deadline,
                                 &s->incumbent);
  if (s->incumbent.cost < before) s->progress = s->round;
}

// Drops what cannot be better than the incumbent. Returns whether so much was dropped that the
// model should be built anew.
static bool review(bd_ctx *ctx, search *s, era *e) {
  int dropped = 0;
  for (int k = 0; k < ISLANDS && s->incumbent.cost < s->p->forbidden; k++) {
    bd_select_ascent *ascent = bd_select_island_ascent(e->island[k]);
    bd_select_ascent_return(ascent);
    dropped += bd_select_fix(ctx, s->p, ascent, s->incumbent.cost, &s->domain);
  }
  exhaust(ctx, s);
  return dropped * 4 > e->model->start[e->model->nodes];
}

// The model of what is left; NULL when nothing is.
static const bd_select_model *reduce(bd_ctx *ctx, search *s) {
  enum { DOMINANCE_ROUNDS = 4 };
  const double work = 2e8;
  if (s->incumbent.cost < s->forbid) s->forbid = s->incumbent.cost;
  if (!bd_select_domain_prune(ctx, s->p, &s->times, s->forbid, &s->domain)) return NULL;
  const bd_select_model *model =
      bd_select_model_create(ctx, s->p, &s->times, &s->domain, s->forbid);
  for (int k = 0; k < DOMINANCE_ROUNDS; k++) {
    if (bd_select_dominate(ctx, s->p, model, work, s->deadline, &s->domain) == 0) break;
    model = bd_select_model_create(ctx, s->p, &s->times, &s->domain, s->forbid);
  }
  return model;
}

// Rounds until the search ends or the model should be built anew; returns whether the latter.
static bool run_era(bd_ctx *ctx, search *s) {
  era e = {.model = reduce(ctx, s)};
  s->finished = !e.model;
  if (s->finished) return false;
  e.guest = BD_NEW_ARRAY(ctx->arena, int, e.model->nodes);
  if (e.model->nodes == 0) {
    offer(ctx, s, &e, e.guest);
    s->finished = true;
    return false;
  }
  if (s->round == 0) exhaust(ctx, s);
  if (s->finished) return false;
  for (int k = 0; k < ISLANDS; k++) {
    e.island[k] = bd_select_island_create(ctx, e.model, s->price, (uint64_t)k + 1);
    e.cost[k] = INFINITY;
    bd_select_island_begin(e.island[k], k > 0 ? e.island[0] : NULL, s->deadline);
  }
  make_guest(s, &e);
  take_stock(ctx, s, &e);
  int patience = s->p->forbidden < INT64_MAX ? LEAST_ROUNDS : LEAST_ROUNDS_WITHOUT_HOPE;
  while (!bd_deadline_passed(s->deadline) && s->round - s->progress < patience + s->progress) {
    run_round(ctx, s, &e);
    take_stock(ctx, s, &e);
    s->round++;
    if (proven(s)) return false;
    bool power_of_two = (s->round & (s->round - 1)) == 0;
    if (power_of_two && review(ctx, s, &e)) return !s->finished;
    if (s->finished) return false;
  }
  return false;
}

static void run_search(bd_ctx *ctx, search *s) {
  for (bool again = true; again;) {
    bd_owned held;
    bd_arena *outer = ctx->arena, *arena = bd_ctx_open_arena(ctx, &held);
    ctx->arena = arena;
    again = run_era(ctx, s);
    ctx->arena = outer;
    bd_ctx_close_arena(ctx, &held);
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

// Whether some choice has no forbidden cost, as far as looking at pairs can tell. If none has,
// nothing is forbidden, and such costs are merely high.
static void find_forbidden(bd_ctx *ctx, search *s, bd_select_problem *merged) {
  s->domain = bd_select_domain_create(ctx, merged);
  s->forbid = merged->forbidden;
  if (bd_select_domain_prune(ctx, merged, &s->times, s->forbid, &s->domain)) return;
  merged->forbidden = INT64_MAX;
  s->forbid = merged->forbidden;
  s->domain = bd_select_domain_create(ctx, merged);
}

bd_status bd_select_solve(bd_ctx *ctx, const char *file, const bd_select_problem *p,
                          bd_deadline deadline, int threads, bd_select_answer *out) {
  double begun = bd_clock_seconds();
  *out = (bd_select_answer){.choice = BD_NEW_ARRAY(ctx->arena, int, p->nodes)};
  BD_TRY(check_room(ctx, file, p, out->choice));
  bd_select_problem merged = bd_select_merge(ctx, p);
  search s = {.p = &merged,
              .times = bd_select_find_times(ctx, p),
              .deadline = deadline,
              .incumbent = {.choice = out->choice, .cost = bd_select_cost(p, out->choice)},
              .bound = 0};
  s.price = BD_NEW_ARRAY(ctx->arena, double, s.times.points);
  find_forbidden(ctx, &s, &merged);
  bd_owned held;
  s.workers = bd_workers_start(ctx, &held, threads < ISLANDS ? threads : ISLANDS, NULL);
  run_search(ctx, &s);
  bd_workers_stop(ctx, s.workers, &held);
  out->cost = s.incumbent.cost;
  out->peak = bd_select_peak(ctx, p, out->choice, NULL);
  out->seconds = bd_clock_seconds() - begun;
  out->limited = !proven(&s) && bd_deadline_passed(deadline);
  // What was dropped costs at least as much as the incumbent, or is forbidden.
  int64_t dropped = out->cost < merged.forbidden ? out->cost : merged.forbidden;
  out->bound = s.finished || s.bound > dropped ? dropped : s.bound;
  out->forbidden = out->cost >= p->forbidden;
  return BD_OK;
}
