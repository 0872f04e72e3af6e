#include "planner/full/alone.h"
#include "planner/full/bound.h"
#include "planner/full/full.h"
#include <math.h>

#define TOLERANCE 1e-9 // of predictions

typedef struct listing {
  bd_ctx *ctx;
  const bd_cluster *cluster;
  bd_dtype precision;
  int count;
  bd_full_choice *choices;
} listing;

static double rate_of(const listing *l, int group) {
  const bd_node_group *g = &l->cluster->groups[group];
  return bd_flops_of(&l->cluster->kinds[g->kind].flops, l->precision);
}

static int devices_of(const listing *l, int group) {
  return l->cluster->groups[group].nodes * l->cluster->groups[group].devices_per_node;
}

// The groups from `first` to before `end`; the rate of several is that of the slowest for all.
static void add(listing *l, int first, int end) {
  bd_full_choice choice = {.several = end - first > 1};
  double rate = INFINITY;
  for (int g = 0; g < end; g++) {
    *(g < first ? &choice.first : &choice.count) += devices_of(l, g);
    if (g >= first) rate = fmin(rate, rate_of(l, g));
  }
  choice.rate = rate * choice.count;
  bd_cluster_part(l->ctx, l->cluster, choice.first, choice.count, &choice.cluster);
  int at = l->count++;
  for (; at > 0 && l->choices[at - 1].rate < choice.rate; at--)
    l->choices[at] = l->choices[at - 1];
  l->choices[at] = choice;
}

// All groups that are as fast as `group` or faster, if they are several that follow one another.
static void add_faster(listing *l, int group) {
  int first = -1, end = 0, faster = 0;
  double rate = rate_of(l, group);
  for (int g = 0; g < l->cluster->group_count; g++) {
    if (rate_of(l, g) < rate) continue;
    if (first < 0) first = g;
    if (g < group && rate_of(l, g) == rate) return; // told of that one
    end = g + 1;
    faster++;
  }
  if (faster > 1 && faster < l->cluster->group_count && end - first == faster) add(l, first, end);
}

int bd_full_choices(bd_ctx *ctx, const bd_cluster *cluster, bd_dtype precision,
                    bd_full_choice **out) {
  int groups = cluster->group_count;
  listing l = {.ctx = ctx, .cluster = cluster, .precision = precision};
  l.choices = BD_NEW_ARRAY(ctx->arena, bd_full_choice, 2 * groups);
  for (int g = 0; g < groups && groups > 1; g++) {
    add(&l, g, g + 1);
    add_faster(&l, g);
  }
  *out = l.choices;
  return l.count;
}

bd_status bd_full_choice_is_slow(bd_ctx *ctx, const bd_module *train, const bd_full_choice *choice,
                                 const bd_plan_request *request, double seconds, bool *out_slow) {
  bd_module lean = *train;
  bd_full_space space;
  bd_full_bounds bounds;
  const bd_deadline passed = {bd_clock_seconds() - 1, request->stop};
  *out_slow = false;
  if (!isfinite(seconds) || !bd_plan_full_knows(request)) return BD_OK;
  lean.one_head = true; // so that the bound holds for plans with more room for libraries as well
  bd_full_space_open(ctx, &lean, &choice->cluster, request, NULL, &space);
  BD_TRY(bd_full_bound(ctx, &space, seconds, passed, &bounds));
  *out_slow = bounds.seconds >= seconds;
  return BD_OK;
}

// Adds the plan of a choice, if its exact bytes fit.
static bd_status take(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                      const bd_full_choice *choice, const bd_plan *found, bd_full_alone *out) {
  bd_plan *plan = &out->plans[out->count];
  out->bound_seconds = fmin(out->bound_seconds, found->bound_seconds);
  *plan = *found;
  bd_full_shift(ctx, choice->first, plan);
  BD_TRY(bd_plan_predict(ctx, train, cluster, plan));
  for (int s = 0; s < plan->stages; s++)
    if (plan->predicted[s].memory.total_bytes > plan->cap_bytes) return BD_OK;
  out->count++;
  return BD_OK;
}

bd_status bd_full_look_alone(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                             const bd_plan_request *request, bd_deadline deadline, double seconds,
                             bd_full_alone *out) {
  bd_full_choice *choices;
  int count = bd_full_choices(ctx, cluster, request->precision, &choices);
  *out = (bd_full_alone){.bound_seconds = INFINITY};
  out->plans = BD_NEW_ARRAY(ctx->arena, bd_plan, count);
  for (int i = 0; i < count; i++) {
    bd_plan_request own = *request;
    bd_search_outcome outcome;
    bool slow;
    out->cut = out->cut || bd_deadline_passed(deadline);
    if (bd_deadline_passed(deadline)) break;
    BD_TRY(bd_full_choice_is_slow(ctx, train, &choices[i], request, seconds, &slow));
    if (slow) continue;
    own.limit_seconds = fmax(0, deadline.seconds - bd_clock_seconds()) / 2;
    own.full = request->full && !choices[i].several;
    if (!own.full && bd_plan_needs_full(&own)) continue;
    BD_TRY((own.full ? bd_plan_look_full : bd_plan_look)(ctx, train, &choices[i].cluster, &own,
                                                         &outcome));
    out->cut = out->cut || outcome.cut;
    if (!outcome.found) continue;
    BD_TRY(take(ctx, train, cluster, &choices[i], &outcome.plan, out));
    if (request->any && out->count) break;
    seconds = fmin(seconds, outcome.plan.step_seconds * (1 + TOLERANCE));
  }
  return BD_OK;
}
