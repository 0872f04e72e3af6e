#include "planner/select/branch.h"
#include "planner/select/ascent.h"

#include <math.h>
#include <string.h>

enum { MOST_DEPTH = 400, SETTLE_PASSES = 30, MOVES = 12 };

// Costs are integers, so a better choice costs at most one less. What rounding may have added to
// `bound`, which is above the model's constant, is covered by the margin.
static bool hopeless(const bd_select_model *m, double bound, int64_t cost) {
  double margin = 1e-6 + 1e-9 * fabs(bound);
  return cost < INT64_MAX && bound - margin > (double)(cost - 1 - m->constant);
}

int bd_select_fix(bd_ctx *ctx, const bd_select_problem *p, bd_select_ascent *ascent, int64_t cost,
                  bd_select_domain *domain) {
  const bd_select_model *m = ascent->model;
  double *slack = BD_NEW_ARRAY(ctx->arena, double, m->start[m->nodes]);
  double bound = bd_select_dual_bound(ascent->dual, slack);
  int dropped = 0;
  for (int i = 0; i < m->nodes; i++) {
    for (int s = m->start[i]; s < m->start[i + 1]; s++) {
      size_t strategy = p->start[m->origin[i]] + (size_t)m->strategy[s];
      if (!domain->live[strategy] || !hopeless(m, bound + slack[s], cost)) continue;
      domain->live[strategy] = false;
      domain->count[m->origin[i]]--;
      dropped++;
    }
  }
  return dropped;
}

typedef struct branching {
  const bd_select_problem *p;
  const bd_select_times *times;
  bd_select_incumbent *incumbent;
  int nodes_left;
  bd_deadline deadline;
} branching;

static bool explore(bd_ctx *ctx, branching *b, const bd_select_domain *domain, const double *price,
                    int depth);

// Explores with an arena of its own.
static bool descend(bd_ctx *ctx, branching *b, const bd_select_domain *domain, const double *price,
                    int depth) {
  bd_owned held;
  bd_arena *outer = ctx->arena, *arena = bd_ctx_open_arena(ctx, &held);
  ctx->arena = arena;
  bool done = explore(ctx, b, domain, price, depth);
  ctx->arena = outer;
  bd_ctx_close_arena(ctx, &held);
  return done;
}

static bd_select_domain copy_domain(bd_ctx *ctx, const bd_select_problem *p,
                                    const bd_select_domain *domain) {
  bd_select_domain copy = bd_select_domain_create(ctx, p);
  memcpy(copy.live, domain->live, p->start[p->nodes] * sizeof *copy.live);
  memcpy(copy.count, domain->count, (size_t)p->nodes * sizeof *copy.count);
  return copy;
}

static void offer(bd_ctx *ctx, branching *b, const bd_select_model *m, const int *choice) {
  int *full = BD_NEW_ARRAY(ctx->arena, int, b->p->nodes);
  bd_select_model_expand(m, b->p->nodes, choice, full);
  if (!bd_select_cheaper(b->p, full, b->incumbent->choice) ||
      bd_select_peak(ctx, b->p, full, NULL) > b->p->limit)
    return;
  b->incumbent->cost = bd_select_cost(b->p, full);
  memcpy(b->incumbent->choice, full, (size_t)b->p->nodes * sizeof *full);
}

// The node to branch on: where the best and the second best strategy differ most, so that the
// second branch dies soon. Writes its best strategy.
static int pick(bd_ctx *ctx, const bd_select_ascent *ascent, int *out_strategy) {
  const bd_select_model *m = ascent->model;
  double *slack = BD_NEW_ARRAY(ctx->arena, double, m->start[m->nodes]), widest = -1;
  bd_select_dual_bound(ascent->dual, slack);
  int node = 0;
  for (int i = 0; i < m->nodes; i++) {
    double first = INFINITY, second = INFINITY;
    int best = 0;
    for (int s = m->start[i]; s < m->start[i + 1]; s++) {
      if (slack[s] < first) {
        second = first;
        first = slack[s];
        best = s;
      } else if (slack[s] < second) {
        second = slack[s];
      }
    }
    if (second - first <= widest) continue;
    widest = second - first;
    node = i;
    *out_strategy = m->strategy[best];
  }
  return m->origin[node];
}

// Both branches: the node takes the strategy, or it does not.
static bool split(bd_ctx *ctx, branching *b, const bd_select_domain *domain,
                  const bd_select_ascent *ascent, int depth) {
  int strategy = 0;
  int node = pick(ctx, ascent, &strategy);
  size_t first = b->p->start[node], chosen = first + (size_t)strategy;
  bd_select_domain with = copy_domain(ctx, b->p, domain);
  memset(with.live + first, 0, (size_t)bd_select_strategies(b->p, node) * sizeof *with.live);
  with.live[chosen] = true;
  with.count[node] = 1;
  if (!descend(ctx, b, &with, ascent->best_price, depth + 1)) return false;
  bd_select_domain without = copy_domain(ctx, b->p, domain);
  without.live[chosen] = false;
  without.count[node]--;
  return descend(ctx, b, &without, ascent->best_price, depth + 1);
}

// Raises the bound of what is left; returns whether no better choice is among it.
static bool bound_out(bd_ctx *ctx, branching *b, bd_select_ascent *ascent) {
  bd_select_state *fitting = bd_select_state_create(ctx, ascent->model);
  bd_select_ascent_settle(ascent, SETTLE_PASSES, b->deadline);
  for (int k = 0; k < MOVES; k++) {
    bd_select_state_decode(fitting, ascent->dual);
    offer(ctx, b, ascent->model, fitting->choice);
    if (hopeless(ascent->model, ascent->bound, b->incumbent->cost)) return true;
    if (k + 1 < MOVES) bd_select_ascent_step(ascent, b->deadline);
  }
  bd_select_ascent_return(ascent);
  return false;
}

static bool explore(bd_ctx *ctx, branching *b, const bd_select_domain *given, const double *price,
                    int depth) {
  if (b->nodes_left-- <= 0 || depth > MOST_DEPTH || bd_deadline_passed(b->deadline)) return false;
  bd_select_domain domain = copy_domain(ctx, b->p, given);
  bd_select_ascent *ascent = NULL;
  do {
    int64_t cost = b->incumbent->cost;
    int64_t forbid = cost < b->p->forbidden ? cost : b->p->forbidden;
    if (!bd_select_domain_prune(ctx, b->p, b->times, forbid, &domain)) return true;
    const bd_select_model *m = bd_select_model_create(ctx, b->p, b->times, &domain, forbid);
    if (m->nodes == 0) {
      offer(ctx, b, m, NULL);
      return true;
    }
    ascent = bd_select_ascent_create(ctx, m, ascent ? ascent->best_price : price);
    if (bound_out(ctx, b, ascent)) return true;
  } while (bd_select_fix(ctx, b->p, ascent, b->incumbent->cost, &domain) > 0);
  return split(ctx, b, &domain, ascent, depth);
}

bool bd_select_branch(bd_ctx *ctx, const bd_select_problem *p, const bd_select_times *times,
                      const bd_select_domain *domain, const double *price, int most_nodes,
                      bd_deadline deadline, bd_select_incumbent *incumbent) {
  branching b = {.p = p,
                 .times = times,
                 .incumbent = incumbent,
                 .nodes_left = most_nodes,
                 .deadline = deadline};
  return descend(ctx, &b, domain, price, 0);
}
