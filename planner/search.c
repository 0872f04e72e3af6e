// The pipeline search: every degree, mesh and micro-batch, each bounded by the op table, then by
// ops apart, by sketches of its layers, by its layer problems, and within its memory, before it is
// solved; the least bound first, until none can beat the incumbent. Settings are attempted in
// batches over threads; which ones a batch holds depends on what was found before it and on nothing
// else, so that equal inputs give equal plans.
#include "ir/base/clock.h"
#include "ir/base/workers.h"
#include "planner/agenda.h"
#include "planner/planner.h"
#include "planner/solver.h"
#include "planner/told/alternatives.h"
#include "planner/told/refuse.h"
#include <math.h>
#include <string.h>

enum {
  // A batch ends when it weighs this much; settings that are bounded weigh 1.
  BATCH_WEIGHT = 16,
  EARLY_WEIGHT = 6, // before there is a plan, which later attempts are cut off at
  ROOM_WEIGHT = 3,
  TRY_WEIGHT = 3,
  SOLVE_WEIGHT = 6,
  ANY_TRIES = 4,   // settings solved where any plan will do
  LEAN_TRIES = 6,  // settings solved in vain where a leaner plan is looked for with no cap yet
  SHORT_STEPS = 3, // of a byte towards leaner plans, before they become longer
  STEP_FACTOR = 8, // by so much
  NEAR_PART = 16,  // plans over the cap by less than this part of it may fit after all
};

// Small steps beyond a setting's own plan, which was only tried out, are looked for from above it.
#define OWN_FACTOR 1.002

// Why a search ended before its space was searched.
typedef enum cut { NOT_CUT, CUT_BY_TIME, CUT_BY_USER } cut;

typedef struct search {
  bd_ctx *ctx;
  bd_scene scene;
  bd_model_runs runs;
  bd_workers *workers;
  double deadline;
  cut cut;
  bd_agenda agenda;
  int attempt_count; // of the batch at hand
  bd_attempt attempts[BATCH_WEIGHT];
  bool left_out[BATCH_WEIGHT]; // since the search is over
  bd_plan best;
  bool found;
  bool last;       // no other search follows where nothing fits
  bool shown;      // there is something to show when the time is up
  bool lean;       // any plan that fits will do, the leanest of those that come together
  bd_plan leanest; // of all that do not fit
  int64_t leanest_bytes;
  int solved;
  bd_alternatives alternatives;
} search;

static void tell_progress(const search *s) {
  const bd_plan_request *request = s->scene.request;
  if (!request->progress) return;
  bd_plan_progress now = {.settings = s->agenda.settings,
                          .bounded = s->agenda.bounded,
                          .solved = s->solved,
                          .step_seconds = s->agenda.best_seconds,
                          .bound_seconds = bd_agenda_bound(&s->agenda)};
  request->progress(request->progress_user, &now);
}

// Why the search must end now: at once when the user says so, at the time limit when it has
// something to show.
static cut cut_of(const search *s) {
  const volatile sig_atomic_t *stop = s->scene.request->stop;
  if (stop && *stop) return CUT_BY_USER;
  return s->shown && bd_clock_seconds() > s->deadline ? CUT_BY_TIME : NOT_CUT;
}

static bool is_over(search *s) {
  s->cut = cut_of(s);
  return s->cut != NOT_CUT;
}

// Whether the time is up with nothing to show: then the leanest setting that is bounded is tried or
// solved, and the next, until there is something.
static bool is_late(const search *s) {
  return !s->shown && bd_clock_seconds() > s->deadline && bd_agenda_leanest(&s->agenda) >= 0;
}

static bd_status run_attempt(bd_ctx *ctx, void *arg, int index) {
  search *s = arg;
  s->left_out[index] = cut_of(s) != NOT_CUT;
  return s->left_out[index] ? BD_OK : bd_attempt_run(ctx, &s->attempts[index]);
}

static bool is_better(const search *s, const bd_plan *plan) {
  return s->lean ? bd_attempt_plan_bytes(plan) < bd_attempt_plan_bytes(&s->best)
                 : plan->step_seconds < s->best.step_seconds;
}

static void take_best(search *s, const bd_plan *plan) {
  s->best = *plan;
  s->found = true;
  s->agenda.best_seconds = plan->step_seconds;
}

static void take_plans(search *s, const bd_attempt *a) {
  s->shown = s->shown || a->lacks || a->fits;
  if (a->lacks) {
    bd_alternatives_note_plan(s->ctx, &s->alternatives, &a->leanest,
                              a->leanest_bytes - s->scene.cap_bytes);
    if (!s->leanest_bytes || a->leanest_bytes < s->leanest_bytes) {
      s->leanest = bd_plan_copy(s->ctx, &a->leanest);
      s->leanest_bytes = a->leanest_bytes;
    }
  }
  if (a->fits) {
    bd_alternatives_note_plan(s->ctx, &s->alternatives, &a->fastest, 0);
    if (!s->found || is_better(s, &a->fastest)) {
      bd_plan best = bd_plan_copy(s->ctx, &a->fastest);
      take_best(s, &best);
    }
  }
}

static void take_attempt(bd_ctx *ctx, void *arg, int index) {
  (void)ctx;
  search *s = arg;
  const bd_attempt *a = &s->attempts[index];
  bd_agenda_take(&s->agenda, a, index, s->left_out[index]);
  if (s->left_out[index]) return;
  s->solved += a->solved;
  take_plans(s, a);
}

// Whether the plan in hand is one of the setting.
static bool is_of_best(const search *s, const bd_setting *setting) {
  return s->found && s->best.stages == setting->stages &&
         s->best.micro_batch == setting->micro_batch && bd_mesh_same(&s->best.mesh, &setting->mesh);
}

// A plan that is only near the best is of no use where the leanest is wanted, or where it would
// hardly beat the one in hand; of few layers it takes nearly as long as the best.
static bool is_worth_trying(const search *s, const bd_item *of) {
  return !s->lean && !bd_model_has_few_layers(s->scene.runs) && isfinite(of->of.seconds) &&
         bd_agenda_may_gain_much(&s->agenda, of);
}

// What layers may hold of so many bytes of a rank.
static int64_t for_layers(const search *s, int64_t bytes) {
  return bytes - (s->scene.cap_bytes - s->scene.layers_cap_bytes);
}

// Returns what it weighs.
static int add_attempt(search *s, int index) {
  static const struct {
    bd_attempt_kind kind;
    int weight;
  } next[] = {[BD_BOUND_WORK] = {BD_ATTEMPT_APART, 1},
              [BD_BOUND_APART] = {BD_ATTEMPT_SKETCH, 1},
              [BD_BOUND_SKETCH] = {BD_ATTEMPT_LAYERS, 1},
              [BD_BOUND_LAYERS] = {BD_ATTEMPT_ROOM, ROOM_WEIGHT},
              [BD_BOUND_ROOM] = {BD_ATTEMPT_TRY, TRY_WEIGHT},
              [BD_BOUND_TRIED] = {BD_ATTEMPT_SOLVE, SOLVE_WEIGHT}};
  const bd_item *from = &s->agenda.items[index];
  // Ops apart and sketches, which begin with ops apart, only tell what cannot beat the plan in
  // hand. Fine meshes have their turn when that is nearly as good as it becomes.
  bd_bound_kind kind = from->kind;
  if (kind < BD_BOUND_APART && bd_setting_is_fine(&from->of.setting)) kind = BD_BOUND_APART;
  if (kind < BD_BOUND_SKETCH && !s->found) kind = BD_BOUND_SKETCH;
  if (kind < BD_BOUND_ROOM && is_late(s)) kind = BD_BOUND_ROOM;
  if (kind == BD_BOUND_ROOM && !is_worth_trying(s, from)) kind = BD_BOUND_TRIED;
  int weight = next[kind].weight;
  bd_attempt *a = &s->attempts[s->attempt_count];
  *a = (bd_attempt){.scene = &s->scene,
                    .setting = from->of.setting,
                    .cutoff = s->agenda.best_seconds,
                    .kind = next[kind].kind,
                    .sketched = from->kind == BD_BOUND_SKETCH,
                    .deadline = {s->shown ? s->deadline : INFINITY, s->scene.request->stop},
                    .lean = s->lean};
  if (is_of_best(s, &from->of.setting)) a->cutoff *= OWN_FACTOR;
  int64_t most = s->leanest_bytes ? for_layers(s, s->leanest_bytes) : 0;
  a->tied_count = bd_agenda_batch(&s->agenda, index, s->attempt_count++, most, &a->tied);
  return weight;
}

static bd_status run_batch(search *s) {
  bd_work work = {s->attempt_count, run_attempt, take_attempt, s};
  BD_TRY(bd_workers_run(s->ctx, s->workers, &work));
  s->attempt_count = 0;
  tell_progress(s);
  return BD_OK;
}

// Items as `next_of` finds them, -1 being none, until the batch has the weight.
static void fill_batch(search *s, int most_weight, int (*next_of)(search *)) {
  for (int weight = 0; weight < most_weight;) {
    int next = next_of(s);
    if (next < 0) break;
    weight += add_attempt(s, next);
  }
}

static int turn(search *s) {
  return bd_agenda_turn(&s->agenda);
}

static bd_status search_fastest(search *s) {
  while (!is_over(s) && !is_late(s) && !(s->lean && s->found)) {
    int most = s->found ? BATCH_WEIGHT : EARLY_WEIGHT;
    fill_batch(s, most, turn);
    if (!s->attempt_count) break;
    BD_TRY(run_batch(s));
  }
  return BD_OK;
}

// The bounded item of the least bytes, if these are less than the leanest plan's; else -1.
static int leanest_item(search *s) {
  int next = bd_agenda_leanest(&s->agenda);
  double most = (double)for_layers(s, s->leanest_bytes);
  bool leaner = next >= 0 && (!s->leanest_bytes || s->agenda.items[next].of.bytes < most);
  return leaner ? next : -1;
}

// When nothing fits, settings that cannot fit are looked at as well, the leanest first: all of
// them, or until there is a plan below whose bytes others are looked for.
static bd_status search_leanest(search *s) {
  bool all = s->scene.request->rough;
  for (int in_vain = 0;
       !s->found && !is_over(s) && (all || !s->leanest_bytes || in_vain < LEAN_TRIES);) {
    int most = is_late(s) ? 1 : BATCH_WEIGHT, solved = s->solved;
    int64_t before = s->leanest_bytes;
    fill_batch(s, most, leanest_item);
    if (!s->attempt_count) break;
    BD_TRY(run_batch(s));
    in_vain = s->leanest_bytes != before ? 0 : in_vain + s->solved - solved;
  }
  return BD_OK;
}

// An item whose layers are to be bounded, or else of those that may have a plan within the cap that
// of the least bytes; -1: there is none.
static int lean_item(search *s) {
  int next = -1;
  for (int i = 0; i < s->agenda.item_count; i++) {
    const bd_item *item = &s->agenda.items[i];
    if (item->batched >= 0 || item->kind == BD_BOUND_DONE || isinf(item->of.seconds)) continue;
    if (item->kind < BD_BOUND_LAYERS) return i;
    if (next < 0 || item->of.bytes < s->agenda.items[next].of.bytes) next = i;
  }
  return next;
}

// Until there is a plan: every setting that may have one.
static bd_status search_lean(search *s) {
  while (!s->found && !is_over(s)) {
    fill_batch(s, BATCH_WEIGHT, lean_item);
    if (!s->attempt_count) break;
    BD_TRY(run_batch(s));
  }
  return BD_OK;
}

// The same search under another cap.
static bd_status search_within(search *s, int64_t cap_bytes, bool lean, search *again) {
  *again = (search){.ctx = s->ctx,
                    .runs = s->runs,
                    .scene = s->scene,
                    .workers = s->workers,
                    .deadline = s->deadline,
                    .shown = true,
                    .lean = lean};
  again->scene.runs = &again->runs;
  again->scene.layers_cap_bytes = for_layers(s, cap_bytes);
  again->scene.cap_bytes = cap_bytes;
  BD_TRY(bd_agenda_open(again->ctx, &again->scene, &again->agenda));
  if (lean) bd_agenda_take_bytes(&again->agenda, &s->agenda);
  BD_TRY(lean ? search_lean(again) : search_fastest(again));
  s->cut = again->cut;
  return BD_OK;
}

// A leaner plan than the leanest one, by so many bytes at least. One that fits after all is looked
// for once more, to be fast.
static bd_status search_below(search *s, int64_t less, bool *out_found) {
  search *lean = BD_NEW(s->ctx->arena, search), *fast = BD_NEW(s->ctx->arena, search);
  int64_t cap = s->leanest_bytes - less;
  *out_found = false;
  if (cap <= 0) return BD_OK;
  BD_TRY(search_within(s, cap, true, lean));
  if (!lean->found) return BD_OK;
  *out_found = true;
  s->leanest = lean->best;
  s->leanest_bytes = bd_attempt_plan_bytes(&lean->best);
  if (s->leanest_bytes > s->scene.cap_bytes) return BD_OK;
  take_best(s, &lean->best);
  if (s->cut) return BD_OK;
  BD_TRY(search_within(s, cap, false, fast));
  if (fast->found && fast->best.step_seconds < s->best.step_seconds &&
      bd_attempt_plan_bytes(&fast->best) <= s->scene.cap_bytes)
    take_best(s, &fast->best);
  return BD_OK;
}

// Whether anything holds less than the leanest plan: leaner ones are looked for a byte below the
// last, and in ever longer steps once several were found, until there is none a byte below. So what
// a refusal asks for is exact as far as this search can tell. A rough search only makes sure that
// nothing fits.
static bd_status confirm_leanest(search *s) {
  bool found = true, near = s->leanest_bytes - s->scene.cap_bytes <= s->scene.cap_bytes / NEAR_PART;
  if (s->found || !s->leanest_bytes) return BD_OK;
  if (s->scene.request->rough) return near ? search_below(s, 1, &found) : BD_OK;
  int64_t step = 1;
  for (int in_row = 0; !s->found && !s->cut;) {
    BD_TRY(search_below(s, step, &found));
    if (!found && step == 1) break;
    in_row = found ? in_row + 1 : 0;
    step = in_row < SHORT_STEPS ? 1 : step * STEP_FACTOR;
  }
  return BD_OK;
}

static const char *ending(const search *s) {
  static const char *const words[] = {"whole space searched", "stopped by the time limit",
                                      "stopped by an interrupt"};
  return words[s->cut];
}

// Whether any plan fits: all settings are bounded, and the leanest few solved.
static bd_status search_any(search *s) {
  if (s->scene.layers_cap_bytes <= 0) return BD_OK;
  for (int i = 0; i < s->agenda.settings && !is_over(s);) {
    for (int n = 0; n < BATCH_WEIGHT && i < s->agenda.settings; n++)
      add_attempt(s, i++);
    BD_TRY(run_batch(s));
  }
  while (s->solved < ANY_TRIES && !s->found && !is_over(s)) {
    int next = leanest_item(s);
    if (next < 0) break;
    add_attempt(s, next);
    BD_TRY(run_batch(s));
  }
  return BD_OK;
}

static bd_status search_all(search *s) {
  BD_TRY(bd_agenda_open(s->ctx, &s->scene, &s->agenda));
  if (s->scene.request->any) return search_any(s);
  BD_TRY(search_fastest(s));
  bool late = is_late(s);
  BD_TRY(search_leanest(s));
  if (late && s->cut == NOT_CUT) s->cut = CUT_BY_TIME;
  return s->last ? confirm_leanest(s) : BD_OK;
}

// What the plan in hand came to.
static void report(search *s, bd_search_outcome *out) {
  *out = (bd_search_outcome){.found = s->found,
                             .cut = s->cut != NOT_CUT,
                             .interrupted = s->cut == CUT_BY_USER,
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

static bd_status look(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                      const bd_plan_request *request, bool last, bd_search_outcome *out) {
  bd_module targeted = target(train, request);
  search *s = BD_NEW(ctx->arena, search);
  *s = (search){.ctx = ctx,
                .runs = bd_model_runs_find(ctx, &targeted, request->constraints),
                .last = last,
                .shown = request->any,
                .lean = request->any};
  int64_t cap = cluster->memory_bytes - cluster->reserved_bytes;
  if (request->cap_bytes && request->cap_bytes < cap) cap = request->cap_bytes;
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

bd_status bd_plan_look(bd_ctx *ctx, const bd_module *train, const bd_cluster *cluster,
                       const bd_plan_request *request, bd_search_outcome *out) {
  bd_plan_request less = *request;
  BD_TRY(bd_cluster_check_precision(ctx, cluster, request->precision));
  less.one_head = true;
  bd_module full = target(train, request), least = target(train, &less);
  bool last = bd_memory_library_bytes(&full) == bd_memory_library_bytes(&least);
  BD_TRY(look(ctx, train, cluster, request, last, out));
  if (last || out->found || out->interrupted) return BD_OK;
  less.limit_seconds = fmax(0, out->deadline - bd_clock_seconds());
  return look(ctx, train, cluster, &less, true, out);
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
