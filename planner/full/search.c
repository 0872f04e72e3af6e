#include "ir/base/clock.h"
#include "planner/full/alone.h"
#include "planner/full/bound.h"
#include "planner/full/full.h"
#include "planner/full/space.h"
#include "planner/graph/lacking.h"
#include "planner/told/alternatives.h"
#include "planner/told/refuse.h"
#include <math.h>
#include <string.h>

enum {
  MICRO_BATCHES = 6, // tried
  CAP_ROUNDS = 6,    // plans of one micro-batch, until the exact bytes of one fit
  LEAST_SHARE = 4,   // of the time limit that looking beyond the default space has in any case
  BOUND_SHARE = 8,   // the same of the bound
};

#define LEANEST_WORK ((int64_t)1 << 25) // of a layer graph that has no plan within the caps

// Gaps up to this are not looked into.
#define NEARLY 1.01

typedef struct searching {
  bd_ctx *ctx;
  bd_full_space space;
  bd_deadline deadline;
  bool cut; // the clock, or the user, ended a part of the search
  bool found;
  bd_plan best;
  double bound_seconds; // of the spaces beside the full one: no plan of them takes less
  int64_t over_bytes;   // of the leanest plan of a layer graph that does not fit; 0: there is none
  bd_plan leanest;
  int posed, meshes, solved;
  bd_alternatives alternatives;
} searching;

// By how much the fullest stage exceeds its devices' cap.
static int64_t lacking_bytes(const searching *s, const bd_plan *plan) {
  int64_t most = INT64_MIN;
  for (int stage = 0; stage < plan->stages; stage++) {
    int group =
        bd_full_group_of(s->space.groups, s->space.group_count, bd_plan_first_device(plan, stage));
    int64_t over = plan->predicted[stage].memory.total_bytes - s->space.groups[group].cap_bytes;
    if (over > most) most = over;
  }
  return most;
}

// Whether there is no more time, or the user wants no more.
static bool is_late(searching *s) {
  s->cut = s->cut || bd_deadline_passed(s->deadline);
  return bd_deadline_passed(s->deadline);
}

static void note_leanest(searching *s, const bd_plan *plan, int64_t over) {
  if (s->over_bytes && over >= s->over_bytes) return;
  s->leanest = *plan;
  s->over_bytes = over;
}

// The plan of a layer graph's answer, and by how much it exceeds the caps by its exact bytes.
static bd_status measure(searching *s, const bd_full_problem *problem, const bd_layers_plan *of,
                         bd_plan *out_plan, int64_t *out_over) {
  bd_full_assemble(s->ctx, &s->space, problem, of, out_plan);
  out_plan->cap_bytes = bd_plan_cap_bytes(s->space.cluster, s->space.request->cap_bytes, out_plan);
  BD_TRY(bd_plan_predict(s->ctx, s->space.train, s->space.cluster, out_plan));
  *out_over = lacking_bytes(s, out_plan);
  if (*out_over > 0) note_leanest(s, out_plan, *out_over);
  return BD_OK;
}

// Solves with less and less room until the exact bytes of a plan fit.
static bd_status try_problem(searching *s, bd_full_problem *problem) {
  bd_layers_group *groups = BD_NEW_ARRAY(s->ctx->arena, bd_layers_group, s->space.group_count);
  memcpy(groups, problem->layers.groups, sizeof *groups * (size_t)s->space.group_count);
  problem->layers.groups = groups;
  for (int round = 0; round < CAP_ROUNDS && !is_late(s); round++) {
    bd_layers_answer answer;
    bd_plan plan;
    int64_t over;
    double cutoff = s->found ? s->best.step_seconds : 1e30;
    BD_TRY(bd_layers_solve(s->ctx, &problem->layers, s->deadline, cutoff, true, &answer));
    if (!answer.found) return BD_OK;
    s->solved++;
    BD_TRY(measure(s, problem, &answer.plan, &plan, &over));
    bd_alternatives_note_plan(s->ctx, &s->alternatives, &plan, over);
    if (over <= 0) {
      if (!s->found || plan.step_seconds < s->best.step_seconds) s->best = plan;
      s->found = true;
      return BD_OK;
    }
    for (int g = 0; g < s->space.group_count; g++)
      groups[g].cap_bytes -= over + groups[g].cap_bytes / 256;
  }
  return BD_OK;
}

// Each schedule alone has all the work that a problem is given; what one finds cuts off the next.
// GPipe is no better than 1F1B.
static bd_status try_schedules(searching *s, const bd_full_problem *problem) {
  unsigned all = problem->layers.schedules;
  if (all & 1u << BD_SCHEDULE_1F1B) all &= ~(1u << BD_SCHEDULE_GPIPE);
  for (int schedule = BD_SCHEDULE_COUNT - 1; schedule >= 0; schedule--) {
    bd_full_problem of = *problem;
    of.layers.schedules = all & 1u << schedule;
    if (of.layers.schedules) BD_TRY(try_problem(s, &of));
  }
  return BD_OK;
}

// The largest size up to `most` that divides the batch.
static int64_t largest_part(int64_t batch, int64_t most) {
  if (most > batch) most = batch;
  while (most > 1 && batch % most != 0)
    most--;
  return most;
}

static bool is_listed(int count, const int64_t *sizes, int64_t size) {
  for (int i = 0; i < count; i++)
    if (sizes[i] == size) return true;
  return false;
}

// Sizes that divide the batch: the near plan's and those about it, or ever larger ones; each about
// twice another.
static int list_micro_batches(const searching *s, const bd_plan *near, int64_t *out) {
  const bd_plan_request *request = s->space.request;
  int count = 0;
  static const int up[] = {1, 1, 1, 2, 1, 1, 4}, down[] = {1, 2, 4, 1, 8, 16, 1};
  static const bd_mesh one = {1, {1}};
  for (size_t i = 0; i < sizeof up / sizeof *up && count < MICRO_BATCHES; i++) {
    int64_t about = near ? near->micro_batch / down[i] * up[i] : (int64_t)1 << i;
    int64_t size = largest_part(request->global_batch, about);
    if (request->micro_batch) size = request->micro_batch;
    if (about > 0 && request->global_batch % size == 0 && !is_listed(count, out, size) &&
        bd_constraints_allow_micro_batch(request->constraints, &one, size))
      out[count++] = size;
  }
  return count;
}

static bd_status look(searching *s, const bd_plan *near) {
  int64_t sizes[MICRO_BATCHES];
  int count = list_micro_batches(s, near, sizes);
  s->meshes += s->space.mode_count;
  for (int i = 0; i < count && !is_late(s); i++) {
    bd_full_problem problem;
    bool possible;
    BD_TRY(bd_full_pose(s->ctx, &s->space, sizes[i], s->deadline, &problem, &possible));
    if (!possible) continue;
    s->posed++;
    BD_TRY(try_schedules(s, &problem));
  }
  return BD_OK;
}

// The leanest plans of the layer graphs, where none of them has one within the caps.
static bd_status seek_leanest(searching *s, const bd_plan *near) {
  int64_t sizes[MICRO_BATCHES];
  int count = list_micro_batches(s, near, sizes);
  for (int i = 0; i < count && !is_late(s); i++) {
    bd_full_problem problem;
    bd_layers_meter meter = {.deadline = s->deadline};
    bd_layers_answer answer;
    bd_plan plan;
    int64_t over;
    bool possible;
    BD_TRY(bd_full_pose(s->ctx, &s->space, sizes[i], s->deadline, &problem, &possible));
    if (!possible) continue;
    BD_TRY(bd_layers_find_lacking(s->ctx, &problem.layers, &meter, LEANEST_WORK, &answer));
    if (answer.lacking_bytes < INT64_MAX) BD_TRY(measure(s, &problem, &answer.plan, &plan, &over));
  }
  return BD_OK;
}

// Looks where no bound rules out plans that are better by more than NEARLY.
static bd_status look_at(searching *s, const bd_full_least *least) {
  bd_full_space whole = s->space;
  bd_full_problem problem;
  bool possible;
  if (least->seconds * NEARLY >= s->best.step_seconds || is_late(s)) return BD_OK;
  bd_full_space_aim(s->ctx, &whole, least->size_count, least->sizes, least->about_stages,
                    &s->space);
  BD_TRY(bd_full_pose(s->ctx, &s->space, least->micro_batch, s->deadline, &problem, &possible));
  if (possible) {
    s->posed++;
    s->meshes += s->space.mode_count;
    problem.layers.schedules = 1u << least->schedule;
    problem.layers.chunk_count = 1;
    problem.layers.chunks = &least->chunks;
    problem.layers.min_stages = least->least_stages;
    problem.layers.max_stages = least->most_stages;
    BD_TRY(try_problem(s, &problem));
  }
  s->space = whole;
  return BD_OK;
}

bool bd_plan_full_knows(const bd_plan_request *request) {
  static const bd_cut cuts[] = {BD_CUT_SAMPLES, BD_CUT_TOKENS, BD_CUT_FEATURES};
  const bd_constraints *c = request->constraints;
  int axes = request->mesh.axes;
  for (size_t i = 0; c && i < sizeof cuts / sizeof *cuts; i++)
    axes += c->degree[cuts[i]] > 1;
  return axes <= BD_FULL_MAX_AXES;
}

bd_status bd_plan_check_full(bd_ctx *ctx, const bd_plan_request *request) {
  if (bd_plan_full_knows(request)) return BD_OK;
  return bd_fail(ctx, BD_INVALID, BD_NOWHERE,
                 "--space full knows meshes of one and two axes; pin fewer of dp, sp and tp, give "
                 "--mesh fewer axes, or leave --space full out");
}

// The leanest plan of the layer graphs, where it needs less than what `of` lacks.
static void take_leaner(const searching *s, bd_search_outcome *of) {
  if (!s->over_bytes || (of->lacking_bytes > 0 && s->over_bytes >= of->lacking_bytes)) return;
  of->plan = s->leanest;
  of->lacking_bytes = s->over_bytes;
}

bool bd_plan_needs_full(const bd_plan_request *request) {
  return request->schedule >= 0 && !bd_schedule_emitted((bd_schedule)request->schedule);
}

// Nothing of the schedule that is wanted was found; `near` is of another.
static bd_status refuse_schedule(const searching *s, const bd_search_outcome *near) {
  const bd_plan_request *request = s->space.request;
  const char *wanted = bd_schedule_name((bd_schedule)request->schedule);
  const char *other = bd_schedule_name(near->plan.schedule);
  const char *pins = request->mesh.axes || request->stages ? " and the pins" : "";
  if (near->found && s->over_bytes)
    return bd_fail(
        s->ctx, BD_INFEASIBLE, BD_NOWHERE,
        "no plan with schedule %s was found within the cap%s: the leanest that was found "
        "needs %lld bytes a rank, the cap is %lld; with schedule %s there is one: leave "
        "--schedule out, or raise --memory-cap",
        wanted, pins, (long long)(s->leanest.cap_bytes + s->over_bytes),
        (long long)s->leanest.cap_bytes, other);
  if (near->found)
    return bd_fail(s->ctx, BD_INFEASIBLE, BD_NOWHERE,
                   "no plan with schedule %s was found within the cap%s; with schedule %s there is "
                   "one: leave --schedule out, or raise --memory-cap or --time-limit",
                   wanted, pins, other);
  return bd_fail(s->ctx, BD_INFEASIBLE, BD_NOWHERE,
                 "no plan with schedule %s was found within the cap%s; the leanest with schedule "
                 "%s needs %lld bytes a rank, the cap is %lld: raise --memory-cap",
                 wanted, pins, other, (long long)(near->cap_bytes + near->lacking_bytes),
                 (long long)near->cap_bytes);
}

// Nothing was found, but perhaps another schedule or less haste would do.
static bd_status refuse(searching *s, bd_search_outcome *near) {
  const bd_plan_request *request = s->space.request;
  if (request->stop && *request->stop)
    return bd_fail(s->ctx, BD_EXTERNAL, BD_NOWHERE,
                   "the search was interrupted before it found a plan; nothing is written");
  if (near->found) return refuse_schedule(s, near);
  if (near->lacking_bytes > 0 && bd_plan_needs_full(request)) {
    if (!s->over_bytes) return refuse_schedule(s, near);
    near->lacking_bytes = 0;
  }
  take_leaner(s, near);
  near->cut = s->cut;
  return bd_plan_refuse(s->ctx, s->space.train, s->space.cluster, request, near);
}

// Which of them it was: an interrupt ends all searches, the clock each at its time.
static const char *cut_by(const searching *s) {
  const volatile sig_atomic_t *stop = s->deadline.stop;
  return stop && *stop ? "stopped by an interrupt" : "stopped by the time limit";
}

static void finish(searching *s, double bound, bd_plan *out) {
  *out = s->best;
  out->bound_seconds = fmin(fmin(bound, s->bound_seconds), out->step_seconds);
  out->gap = out->bound_seconds > 0 ? out->step_seconds / out->bound_seconds - 1 : INFINITY;
  out->search =
      bd_intern_f(s->ctx, "full space, in part%s%s: %d layer graphs of %d meshes, %d plans",
                  s->cut ? ", " : "", s->cut ? cut_by(s) : "", s->posed, s->meshes, s->solved);
  bd_alternatives_list(s->ctx, &s->alternatives, out);
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
  double end = s->deadline.seconds - request->limit_seconds + near_limit(cluster, request);
  emitted.full = false;
  emitted.limit_seconds = near_limit(cluster, request);
  // A plan of another schedule will not do, but tells where to look.
  if (bd_plan_needs_full(request)) emitted.schedule = -1;
  BD_TRY(bd_plan_look(s->ctx, train, cluster, &emitted, out));
  s->cut = out->cut;
  if (!has_host_link(cluster)) return BD_OK;
  emitted.full = true;
  emitted.limit_seconds = fmax(0, end - bd_clock_seconds());
  BD_TRY(bd_plan_look(s->ctx, train, cluster, &emitted, &aside));
  s->cut = s->cut || aside.cut;
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
  double seconds = s->found ? s->best.step_seconds : INFINITY;
  BD_TRY(bd_full_look_alone(s->ctx, train, cluster, request, s->deadline, seconds, &alone));
  s->cut = s->cut || alone.cut;
  if (alone.count && !fits) train->one_head = false;
  s->bound_seconds = fmin(s->bound_seconds, alone.bound_seconds);
  for (int i = 0; i < alone.count; i++) {
    const bd_plan *plan = &alone.plans[i];
    bd_alternatives_note_plan(s->ctx, &s->alternatives, plan, 0);
    // Less room for libraries is more for the rest, so that bounds with less hold for both.
    train->one_head = train->one_head || plan->one_head;
    if (!s->found || plan->step_seconds < s->best.step_seconds) s->best = *plan;
    s->found = true;
  }
  return BD_OK;
}

// Layer graphs about the plan in hand, and where that is one of some groups alone, first about the
// one of all.
static bd_status look_about(searching *s, const bd_module *train, const bd_cluster *cluster,
                            const bd_plan_request *request, const bd_search_outcome *near) {
  const bd_plan *all = near->found ? &near->plan : NULL, hand = s->best;
  const bd_plan *about = s->found ? &hand : all;
  if (all && s->found && hand.step_seconds < all->step_seconds) {
    bd_full_space_open(s->ctx, train, cluster, request, all, &s->space);
    BD_TRY(look(s, all));
  }
  bd_full_space_open(s->ctx, train, cluster, request, about, &s->space);
  return look(s, about);
}

// Both spaces; with `s->found` also the plan, its bound told.
static bd_status search_both(searching *s, const bd_module *train, const bd_cluster *cluster,
                             const bd_plan_request *request, bd_search_outcome *near,
                             bd_plan *out_plan) {
  bd_module *targeted = BD_NEW(s->ctx->arena, bd_module);
  double limit = request->limit_seconds;
  bd_full_bounds bounds;
  *targeted = *train;
  targeted->cuda = strcmp(request->target, "cuda") == 0;
  s->alternatives = (bd_alternatives){.schedules = true, .cluster = cluster};
  s->deadline = (bd_deadline){bd_clock_seconds() + limit, request->stop};
  BD_TRY(bd_plan_check_full(s->ctx, request));
  BD_TRY(look_near(s, train, cluster, request, near));
  targeted->one_head = near->plan.one_head;
  s->found =
      near->found && (request->schedule < 0 || (int)near->plan.schedule == request->schedule);
  if (s->found) s->best = near->plan;
  if (near->found) {
    s->bound_seconds = near->plan.bound_seconds;
    bd_alternatives_take(s->ctx, &s->alternatives, &near->plan);
    bd_alternatives_note_plan(s->ctx, &s->alternatives, &near->plan, 0);
  }
  if (!near->found || !request->any) BD_TRY(look_alone(s, targeted, cluster, request, near->found));
  s->deadline.seconds = fmax(s->deadline.seconds, bd_clock_seconds() + limit / LEAST_SHARE);
  BD_TRY(look_about(s, targeted, cluster, request, near));
  s->cut = s->cut || bd_deadline_passed(s->deadline);
  if (!s->found && !s->over_bytes && bd_plan_needs_full(request)) {
    s->deadline.seconds = fmax(s->deadline.seconds, bd_clock_seconds() + limit / LEAST_SHARE);
    BD_TRY(seek_leanest(s, near->found ? &near->plan : NULL));
  }
  if (!s->found) return BD_OK;
  s->deadline.seconds = fmax(s->deadline.seconds, bd_clock_seconds() + limit / BOUND_SHARE);
  BD_TRY(bd_full_bound(s->ctx, &s->space, s->best.step_seconds, s->deadline, &bounds));
  for (int i = 0; i < bounds.least_count; i++)
    BD_TRY(look_at(s, &bounds.least[i]));
  s->cut = s->cut || bd_deadline_passed(s->deadline);
  finish(s, bounds.seconds, out_plan);
  return BD_OK;
}

bd_status bd_plan_look_full(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                            const bd_plan_request *request, bd_search_outcome *out) {
  bd_search_outcome near;
  bd_plan plan;
  searching s = {.ctx = ctx, .bound_seconds = INFINITY};
  BD_TRY(search_both(&s, train, cluster, request, &near, &plan));
  *out = near;
  out->cut = s.cut;
  out->interrupted = near.interrupted || (request->stop && *request->stop);
  out->found = s.found;
  if (s.found) {
    out->plan = plan;
    return BD_OK;
  }
  if (bd_plan_needs_full(request)) out->lacking_bytes = 0;
  take_leaner(&s, out);
  return BD_OK;
}

bd_status bd_plan_search_full(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                              const bd_plan_request *request, bd_plan *out_plan) {
  bd_search_outcome near;
  searching s = {.ctx = ctx, .bound_seconds = INFINITY};
  BD_TRY(search_both(&s, train, cluster, request, &near, out_plan));
  if (!s.found) return refuse(&s, &near);
  if (s.cut)
    bd_warn(ctx, BD_NOWHERE,
            "the search was %s: the plan takes %.4g s a step, and none takes less than %.4g s (a "
            "gap of %.1f %%)",
            cut_by(&s), out_plan->step_seconds, out_plan->bound_seconds, 100 * out_plan->gap);
  return BD_OK;
}
