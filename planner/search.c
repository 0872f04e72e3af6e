// The pipeline search: every degree, mesh and micro-batch, each bounded by the op table, then by
// ops apart, by sketches of its layers, by its layer problems, and within its memory, before it is
// solved; the least bound first, until none can beat the incumbent.
#include "ir/base/clock.h"
#include "planner/closing.h"
#include "planner/leaner.h"
#include "planner/least.h"
#include "planner/planner.h"
#include "planner/solver.h"
#include "planner/sweep.h"
#include "planner/told/refuse.h"
#include <math.h>
#include <string.h>

// With room for one key-value head plans are wanted that are faster than with more by this factor:
// libraries keep GPUs less busy so, which costs do not tell.
#define DEAR_ROOM 1.05
enum { LESS_SHARE = 4 }; // of the time limit that they have in any case

static const char *ending(const bd_search *s) {
  static const char *const words[] = {"whole space searched", "stopped by the time limit",
                                      "stopped by an interrupt"};
  return words[s->cut];
}

static bd_status search_all(bd_search *s) {
  BD_TRY(bd_agenda_open(s->ctx, &s->scene, s->lean, &s->agenda));
  if (s->scene.request->any) return bd_sweep_any(s);
  s->agenda.best_seconds = s->wanted_seconds;
  BD_TRY(bd_sweep_fastest(s));
  if (!s->found && isfinite(s->wanted_seconds)) return BD_OK;
  bool late = bd_search_is_late(s);
  BD_TRY(bd_sweep_leanest(s));
  if (late && s->cut == BD_NOT_CUT) s->cut = BD_CUT_BY_TIME;
  if (!s->scene.request->rough) BD_TRY(bd_search_close(s));
  return s->last ? bd_search_confirm_leanest(s) : BD_OK;
}

// What the plan in hand came to.
static void report(bd_search *s, bd_search_outcome *out) {
  *out = (bd_search_outcome){.found = s->found,
                             .cut = s->cut != BD_NOT_CUT,
                             .interrupted = s->cut == BD_CUT_BY_USER,
                             .cap_bytes = s->scene.cap_bytes,
                             .deadline = s->deadline};
  out->plan = s->found ? s->best : s->leanest;
  if (!s->found) {
    out->lacking_bytes = s->leanest_bytes ? s->leanest_bytes - s->scene.cap_bytes : 0;
    return;
  }
  bd_plan *plan = &out->plan;
  plan->bound_seconds = bd_agenda_bound(&s->agenda);
  plan->gap = plan->bound_seconds > 0 ? plan->step_seconds / plan->bound_seconds - 1 : INFINITY;
  plan->cut = s->cut != BD_NOT_CUT;
  plan->interrupted = s->cut == BD_CUT_BY_USER;
  plan->search =
      bd_intern_f(s->ctx, "%s: of %d setting%s %d bounded by their layers, %d pipeline%s solved",
                  ending(s), s->agenda.settings, bd_plural(s->agenda.settings, "s"),
                  s->agenda.bounded, s->solved, bd_plural(s->solved, "s"));
  for (int i = 0; i < s->agenda.item_count; i++)
    bd_alternatives_note_bound(s->ctx, &s->alternatives, s->agenda.items[i].of.setting.stages,
                               &s->agenda.items[i].of.setting.mesh, s->agenda.items[i].of.seconds);
  bd_alternatives_list(s->ctx, &s->alternatives, plan);
}

// The train module as the request has it.
static bd_module target(const bd_module *train, const bd_plan_request *request) {
  bd_module targeted = *train;
  targeted.cuda = strcmp(request->target, "cuda") == 0;
  targeted.one_head = request->one_head;
  return targeted;
}

// Plans that take less than `wanted_seconds` are looked for; INFINITY: any. `last`: no other search
// follows where nothing fits.
static bd_status look(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                      const bd_plan_request *request, double wanted_seconds, bool last,
                      bd_search_outcome *out) {
  bd_module targeted = target(train, request);
  bd_search *s = BD_NEW(ctx->arena, bd_search);
  *s = (bd_search){.ctx = ctx,
                   .runs = bd_model_runs_find(ctx, &targeted, request->constraints),
                   .wanted_seconds = wanted_seconds,
                   .last = last,
                   .shown = request->any || isfinite(wanted_seconds),
                   .lean = request->any};
  int64_t cap = bd_least_room_bytes(cluster, request);
  s->scene = (bd_scene){&targeted,
                        cluster,
                        request,
                        &s->runs,
                        request->sequence,
                        cap,
                        cap - bd_memory_library_bytes(&targeted)};
  s->deadline = bd_clock_seconds() + request->limit_seconds;
  bd_owned held;
  s->workers = bd_workers_start(ctx, &held, request->threads, bd_solver_leave_thread);
  bd_status status = search_all(s);
  bd_workers_stop(ctx, s->workers, &held);
  if (status == BD_OK) report(s, out);
  return status;
}

// With less room for libraries, in the time that is left, where nothing fits with more, or only
// what is much slower.
static bd_status look_with_less(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                                const bd_plan_request *less, bd_search_outcome *out) {
  bd_search_outcome other;
  bool dear = out->found;
  double wanted = dear ? out->plan.step_seconds / DEAR_ROOM : INFINITY;
  BD_TRY(look(ctx, train, cluster, less, wanted, !dear, &other));
  if (!dear || (other.found && other.plan.step_seconds < wanted)) *out = other;
  return BD_OK;
}

bd_status bd_plan_look(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                       const bd_plan_request *request, bd_search_outcome *out) {
  bd_plan_request more = *request, less = *request;
  BD_TRY(bd_cluster_check_precision(ctx, cluster, request->precision));
  less.one_head = true;
  bd_module full = target(train, request), least = target(train, &less);
  bool last = bd_memory_library_bytes(&full) == bd_memory_library_bytes(&least);
  double limit = request->limit_seconds, deadline = bd_clock_seconds() + limit;
  if (!last) more.limit_seconds = limit - limit / LESS_SHARE;
  BD_TRY(look(ctx, train, cluster, &more, INFINITY, last, out));
  out->deadline = deadline;
  if (last || out->interrupted || (out->found && request->any)) return BD_OK;
  less.limit_seconds = fmax(0, deadline - bd_clock_seconds());
  return look_with_less(ctx, train, cluster, &less, out);
}

// Searches that were cut short tell how far they came.
static void tell_cut(bd_ctx *ctx, const bd_plan *plan) {
  bd_warn(ctx, BD_NOWHERE,
          "the search was %.*s: the plan takes %.4g s a step, and none takes less than %.4g s (a "
          "gap of %.1f %%)",
          (int)strcspn(plan->search, ":"), plan->search, plan->step_seconds, plan->bound_seconds,
          100 * plan->gap);
}

bd_status bd_plan_search(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                         const bd_plan_request *request, bd_plan *out_plan) {
  bd_search_outcome outcome;
  BD_TRY(bd_plan_look(ctx, train, cluster, request, &outcome));
  if (!outcome.found && outcome.interrupted)
    return bd_fail(ctx, BD_EXTERNAL, BD_NOWHERE,
                   "the search was interrupted before it found a plan; nothing is written");
  if (!outcome.found) return bd_plan_refuse(ctx, train, cluster, request, &outcome);
  *out_plan = outcome.plan;
  if (outcome.cut) tell_cut(ctx, out_plan);
  return BD_OK;
}
