#include "ir/base/clock.h"
#include "planner/full/alone.h"
#include "planner/full/full.h"
#include "planner/full/graphs.h"
#include "planner/full/refuse.h"
#include <math.h>
#include <string.h>

enum {
  LEAST_SHARE = 4, // of the time limit that looking beyond the default space has in any case, and
                   // once more looking for the leanest plans where nothing was found
  BOUND_SHARE = 8, // the same of the bound
};

typedef struct searching {
  bd_full_graphs graphs;
  double bound_seconds; // of the spaces beside the full one: no plan of them takes less
} searching;

bool bd_plan_full_knows(const bd_plan_request *request) {
  return request->mesh.axes + bd_constraints_degree_axes(request->constraints) <= BD_FULL_MAX_AXES;
}

bd_status bd_plan_check_full(bd_ctx *ctx, const bd_plan_request *request) {
  if (bd_plan_full_knows(request)) return BD_OK;
  return bd_fail(ctx, BD_INVALID, BD_NOWHERE,
                 "--space full knows meshes of one and two axes; pin fewer of dp, sp and tp, give "
                 "--mesh fewer axes, or leave --space full out");
}

bool bd_plan_needs_full(const bd_plan_request *request) {
  return request->schedule >= 0 && !bd_schedule_emitted((bd_schedule)request->schedule);
}

// An interrupt ends all searches, the clock each at its time.
static bool is_interrupted(const searching *s) {
  const volatile sig_atomic_t *stop = s->graphs.deadline.stop;
  return s->graphs.cut && stop && *stop;
}

static const char *cut_by(bool interrupted) {
  return interrupted ? "stopped by an interrupt" : "stopped by the time limit";
}

static void finish(searching *s, double bound, bd_plan *out) {
  *out = s->graphs.best;
  out->bound_seconds = fmin(fmin(bound, s->bound_seconds), out->step_seconds);
  out->gap = out->bound_seconds > 0 ? out->step_seconds / out->bound_seconds - 1 : INFINITY;
  out->cut = s->graphs.cut;
  out->interrupted = is_interrupted(s);
  out->search =
      bd_intern_f(s->graphs.ctx, "full space, in part%s%s: %d layer graphs of %d meshes, %d plans",
                  s->graphs.cut ? ", " : "", s->graphs.cut ? cut_by(out->interrupted) : "",
                  s->graphs.posed, s->graphs.meshes, s->graphs.solved);
  bd_alternatives_list(s->graphs.ctx, &s->graphs.alternatives, out);
}

static bool has_host_link(const bd_cluster *cluster) {
  bool any = cluster->node.host_bytes_per_second > 0;
  for (int g = 0; g < cluster->group_count; g++)
    any = any || cluster->groups[g].node.host_bytes_per_second > 0;
  return any;
}

// Of the time for a mixed cluster, half is for its groups alone and all else.
static double near_limit(const bd_cluster *cluster, const bd_plan_request *request) {
  return bd_cluster_is_mixed(cluster) ? request->limit_seconds / 2 : request->limit_seconds;
}

// The default search, as it is alone, and where values may lie in the host's memory, once more with
// that. The latter's space holds the former's, so that its bound holds for both.
static bd_status look_near(searching *s, const bd_module *train, const bd_cluster *cluster,
                           const bd_plan_request *request, bd_search_outcome *out) {
  bd_plan_request emitted = *request;
  bd_search_outcome aside;
  double end = s->graphs.deadline.seconds - request->limit_seconds + near_limit(cluster, request);
  emitted.full = false;
  emitted.limit_seconds = near_limit(cluster, request);
  // A plan of another schedule will not do, but tells where to look.
  if (bd_plan_needs_full(request)) emitted.schedule = -1;
  BD_TRY(bd_plan_look(s->graphs.ctx, train, cluster, &emitted, out));
  s->graphs.cut = out->cut;
  if (!has_host_link(cluster)) return BD_OK;
  emitted.full = true;
  emitted.limit_seconds = fmax(0, end - bd_clock_seconds());
  BD_TRY(bd_plan_look(s->graphs.ctx, train, cluster, &emitted, &aside));
  s->graphs.cut = s->graphs.cut || aside.cut;
  bool leaner = aside.lacking_bytes > 0 && !out->found &&
                (out->lacking_bytes <= 0 || aside.lacking_bytes < out->lacking_bytes);
  if (leaner) *out = aside;
  if (!aside.found) return BD_OK;
  double bound = aside.plan.bound_seconds;
  if (!out->found || aside.plan.step_seconds < out->plan.step_seconds) *out = aside;
  out->plan.bound_seconds = fmin(bound, out->plan.step_seconds);
  return BD_OK;
}

// What groups of a mixed cluster find alone. `fits`: all of it have a plan, if not of the schedule.
static bd_status look_alone(searching *s, bd_module *train, const bd_cluster *cluster,
                            const bd_plan_request *request, bool fits) {
  bd_full_alone alone;
  double seconds = s->graphs.found ? s->graphs.best.step_seconds : INFINITY;
  BD_TRY(bd_full_look_alone(s->graphs.ctx, train, cluster, request, s->graphs.deadline, seconds,
                            &alone));
  s->graphs.cut = s->graphs.cut || alone.cut;
  if (alone.count && !fits) train->one_head = false;
  s->bound_seconds = fmin(s->bound_seconds, alone.bound_seconds);
  for (int i = 0; i < alone.count; i++) {
    const bd_plan *plan = &alone.plans[i];
    bd_alternatives_note_plan(s->graphs.ctx, &s->graphs.alternatives, plan, 0);
    // Less room for libraries is more for the rest, so that bounds with less hold for both.
    train->one_head = train->one_head || plan->one_head;
    if (!s->graphs.found || plan->step_seconds < s->graphs.best.step_seconds)
      s->graphs.best = *plan;
    s->graphs.found = true;
  }
  return BD_OK;
}

// Layer graphs about the plan in hand, and where that is one of some groups alone, first about the
// one of all.
static bd_status look_about(searching *s, const bd_module *train, const bd_cluster *cluster,
                            const bd_plan_request *request, const bd_search_outcome *near) {
  const bd_plan *all = near->found ? &near->plan : NULL, hand = s->graphs.best;
  const bd_plan *about = s->graphs.found ? &hand : all;
  if (all && s->graphs.found && hand.step_seconds < all->step_seconds) {
    bd_full_space_open(s->graphs.ctx, train, cluster, request, all, &s->graphs.space);
    BD_TRY(bd_full_look(&s->graphs, all));
  }
  bd_full_space_open(s->graphs.ctx, train, cluster, request, about, &s->graphs.space);
  return bd_full_look(&s->graphs, about);
}

static bd_status search_in(searching *s, const bd_module *train, const bd_cluster *cluster,
                           const bd_plan_request *request, bd_search_outcome *near,
                           bd_plan *out_plan) {
  bd_module *targeted = BD_NEW(s->graphs.ctx->arena, bd_module);
  double limit = request->limit_seconds;
  bd_full_bounds bounds;
  *targeted = *train;
  targeted->cuda = strcmp(request->target, "cuda") == 0;
  s->graphs.alternatives = (bd_alternatives){.schedules = true, .cluster = cluster};
  s->graphs.deadline = (bd_deadline){bd_clock_seconds() + limit, request->stop};
  BD_TRY(bd_plan_check_full(s->graphs.ctx, request));
  BD_TRY(look_near(s, train, cluster, request, near));
  targeted->one_head = near->plan.one_head;
  s->graphs.found =
      near->found && (request->schedule < 0 || (int)near->plan.schedule == request->schedule);
  if (near->found) s->bound_seconds = near->plan.bound_seconds;
  // Plans of another schedule are no alternatives to one that is wanted.
  if (s->graphs.found) {
    s->graphs.best = near->plan;
    bd_alternatives_take(s->graphs.ctx, &s->graphs.alternatives, &near->plan);
    bd_alternatives_note_plan(s->graphs.ctx, &s->graphs.alternatives, &near->plan, 0);
  }
  if (!near->found || !request->any) BD_TRY(look_alone(s, targeted, cluster, request, near->found));
  s->graphs.deadline.seconds =
      fmax(s->graphs.deadline.seconds, bd_clock_seconds() + limit / LEAST_SHARE);
  BD_TRY(look_about(s, targeted, cluster, request, near));
  s->graphs.cut = s->graphs.cut || bd_deadline_passed(s->graphs.deadline);
  if (!s->graphs.found && bd_plan_needs_full(request)) {
    s->graphs.deadline.seconds =
        fmax(s->graphs.deadline.seconds, bd_clock_seconds() + limit / LEAST_SHARE);
    BD_TRY(bd_full_seek_leanest(&s->graphs, near->found ? &near->plan : NULL));
  }
  if (!s->graphs.found) return BD_OK;
  s->graphs.deadline.seconds =
      fmax(s->graphs.deadline.seconds, bd_clock_seconds() + limit / BOUND_SHARE);
  BD_TRY(bd_full_bound(s->graphs.ctx, &s->graphs.space, s->graphs.best.step_seconds,
                       s->graphs.deadline, &bounds));
  BD_TRY(bd_full_look_at(&s->graphs, &bounds));
  BD_TRY(bd_full_look_again(&s->graphs, fmin(bounds.seconds, s->bound_seconds)));
  s->graphs.cut = s->graphs.cut || bd_deadline_passed(s->graphs.deadline);
  finish(s, bounds.seconds, out_plan);
  return BD_OK;
}

// Both spaces; with `s->graphs.found` also the plan, its bound told.
static bd_status search_both(bd_ctx *ctx, searching *s, const bd_module *train,
                             const bd_cluster *cluster, const bd_plan_request *request,
                             bd_search_outcome *near, bd_plan *out_plan) {
  bd_owned held;
  bd_workers *workers = bd_workers_start(ctx, &held, request->threads, bd_solver_leave_thread);
  *s = (searching){.graphs = bd_full_graphs_open(ctx, workers, request->threads),
                   .bound_seconds = INFINITY};
  bd_status status = search_in(s, train, cluster, request, near, out_plan);
  bd_workers_stop(ctx, workers, &held);
  return status;
}

bd_status bd_plan_look_full(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                            const bd_plan_request *request, bd_search_outcome *out) {
  bd_search_outcome near;
  bd_plan plan;
  searching s;
  BD_TRY(search_both(ctx, &s, train, cluster, request, &near, &plan));
  *out = near;
  out->cut = s.graphs.cut;
  out->interrupted = near.interrupted || (request->stop && *request->stop);
  out->found = s.graphs.found;
  if (s.graphs.found) {
    out->plan = plan;
    return BD_OK;
  }
  if (bd_plan_needs_full(request)) out->lacking_bytes = 0;
  bd_full_take_leaner(&s.graphs, out);
  return BD_OK;
}

bd_status bd_plan_search_full(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                              const bd_plan_request *request, bd_plan *out_plan) {
  bd_search_outcome near;
  searching s;
  BD_TRY(search_both(ctx, &s, train, cluster, request, &near, out_plan));
  if (!s.graphs.found) return bd_full_refuse(&s.graphs, &near);
  if (s.graphs.cut)
    bd_warn(ctx, BD_NOWHERE,
            "the search was %s: the plan takes %.4g s a step, and none takes less than %.4g s (a "
            "gap of %.1f %%)",
            cut_by(out_plan->interrupted), out_plan->step_seconds, out_plan->bound_seconds,
            100 * out_plan->gap);
  return BD_OK;
}
