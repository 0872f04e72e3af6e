#include "planner/batch.h"
#include "ir/base/clock.h"
#include <math.h>

enum { ROOM_WEIGHT = 3, TRY_WEIGHT = 3, SOLVE_WEIGHT = 6 };

// Small steps beyond a setting's own plan, which was only tried out, are looked for from above it.
#define OWN_FACTOR 1.002

static void tell_progress(const bd_search *s) {
  const bd_plan_request *request = s->scene.request;
  if (!request->progress) return;
  bd_plan_progress now = {.settings = s->agenda.settings,
                          .bounded = s->agenda.bounded,
                          .solved = s->solved,
                          .step_seconds = s->agenda.best_seconds,
                          .bound_seconds = bd_agenda_bound(&s->agenda)};
  request->progress(request->progress_user, &now);
}

static bd_search_cut cut_of(const bd_search *s) {
  const volatile sig_atomic_t *stop = s->scene.request->stop;
  if (stop && *stop) return BD_CUT_BY_USER;
  return s->shown && bd_clock_seconds() > s->deadline ? BD_CUT_BY_TIME : BD_NOT_CUT;
}

bool bd_search_is_over(bd_search *s) {
  s->cut = cut_of(s);
  return s->cut != BD_NOT_CUT;
}

bool bd_search_is_late(const bd_search *s) {
  return !s->shown && bd_clock_seconds() > s->deadline && bd_agenda_leanest(&s->agenda) >= 0;
}

static bd_status run_attempt(bd_ctx *ctx, void *arg, int index) {
  bd_search *s = arg;
  s->left_out[index] = cut_of(s) != BD_NOT_CUT;
  return s->left_out[index] ? BD_OK : bd_attempt_run(ctx, &s->attempts[index]);
}

static bool is_better(const bd_search *s, const bd_plan *plan) {
  return s->lean ? bd_attempt_plan_bytes(plan) < bd_attempt_plan_bytes(&s->best)
                 : plan->step_seconds < s->best.step_seconds;
}

void bd_search_take(bd_search *s, const bd_plan *plan) {
  s->best = *plan;
  s->found = true;
  s->agenda.best_seconds = plan->step_seconds;
}

static void take_plans(bd_search *s, const bd_attempt *a) {
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
      bd_search_take(s, &best);
    }
  }
}

static void take_attempt(bd_ctx *ctx, void *arg, int index) {
  (void)ctx;
  bd_search *s = arg;
  const bd_attempt *a = &s->attempts[index];
  bd_agenda_take(&s->agenda, a, index, s->left_out[index]);
  if (s->left_out[index]) return;
  s->solved += a->solved;
  take_plans(s, a);
}

// Whether the plan in hand is one of the setting.
static bool is_of_best(const bd_search *s, const bd_setting *setting) {
  return s->found && s->best.stages == setting->stages &&
         s->best.micro_batch == setting->micro_batch && bd_mesh_same(&s->best.mesh, &setting->mesh);
}

int64_t bd_search_for_layers(const bd_search *s, int64_t bytes) {
  return bytes - (s->scene.cap_bytes - s->scene.layers_cap_bytes);
}

// Whether a sketched item is bounded within its memory at once when its layers are open: not where
// it is likely to be tried first, nor where that takes many times as long as to open them again.
static bool is_roomed(const bd_search *s, const bd_item *item) {
  bd_item bounded = *item;
  bounded.kind = BD_BOUND_LAYERS;
  if (item->kind != BD_BOUND_SKETCH || bd_agenda_tries_next(&s->agenda, &bounded)) return false;
  return item->of.setting.stages == 1 || !bd_setting_is_fine(&item->of.setting);
}

int bd_batch_add(bd_search *s, int index) {
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
  if (kind < BD_BOUND_SKETCH && isinf(s->agenda.best_seconds)) kind = BD_BOUND_SKETCH;
  if (kind < BD_BOUND_ROOM && bd_search_is_late(s)) kind = BD_BOUND_ROOM;
  bd_item bounded = *from;
  bounded.kind = kind;
  if (bd_agenda_tries_next(&s->agenda, &bounded)) kind = BD_BOUND_ROOM;
  if (bd_agenda_solves_next(&s->agenda, &bounded)) kind = BD_BOUND_TRIED;
  int weight = next[kind].weight;
  bd_attempt *a = &s->attempts[s->attempt_count];
  *a = (bd_attempt){.scene = &s->scene,
                    .setting = from->of.setting,
                    .cutoff = s->agenda.best_seconds,
                    .kind = next[kind].kind,
                    .roomed = is_roomed(s, from),
                    .deadline = {s->shown ? s->deadline : INFINITY, s->scene.request->stop},
                    .lean = s->lean};
  if (is_of_best(s, &from->of.setting)) a->cutoff *= OWN_FACTOR;
  int64_t most = s->leanest_bytes ? bd_search_for_layers(s, s->leanest_bytes) : 0;
  a->tied_count = bd_agenda_batch(&s->agenda, index, s->attempt_count++, most, &a->tied);
  return weight;
}

bd_status bd_batch_run(bd_search *s) {
  bd_work work = {s->attempt_count, run_attempt, take_attempt, s};
  BD_TRY(bd_workers_run(s->ctx, s->workers, &work));
  s->attempt_count = 0;
  tell_progress(s);
  return BD_OK;
}

void bd_batch_fill(bd_search *s, int most_weight, int (*next_of)(bd_search *)) {
  for (int weight = 0; weight < most_weight;) {
    int next = next_of(s);
    if (next < 0) break;
    weight += bd_batch_add(s, next);
  }
}
