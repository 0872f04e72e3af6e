#include "planner/leaner.h"
#include "planner/sweep.h"
#include <math.h>

enum {
  SHORT_STEPS = 3, // of a byte towards leaner plans, before they become longer
  STEP_FACTOR = 8, // by so much
  NEAR_PART = 16,  // plans over the cap by less than this part of it may fit after all
};

// The same search under another cap.
static bd_status search_within(bd_search *s, int64_t cap_bytes, bool lean, bd_search *again) {
  *again = (bd_search){.ctx = s->ctx,
                       .runs = s->runs,
                       .scene = s->scene,
                       .workers = s->workers,
                       .deadline = s->deadline,
                       .wanted_seconds = INFINITY,
                       .shown = true,
                       .lean = lean};
  again->scene.runs = &again->runs;
  again->scene.layers_cap_bytes = bd_search_for_layers(s, cap_bytes);
  again->scene.cap_bytes = cap_bytes;
  BD_TRY(bd_agenda_open(again->ctx, &again->scene, lean, &again->agenda));
  if (lean) bd_agenda_take_bytes(&again->agenda, &s->agenda);
  BD_TRY(lean ? bd_sweep_lean(again) : bd_sweep_fastest(again));
  s->cut = again->cut;
  return BD_OK;
}

// A leaner plan than the leanest one, by so many bytes at least. One that fits after all is looked
// for once more, to be fast.
static bd_status search_below(bd_search *s, int64_t less, bool *out_found) {
  bd_search *lean = BD_NEW(s->ctx->arena, bd_search), *fast = BD_NEW(s->ctx->arena, bd_search);
  int64_t cap = s->leanest_bytes - less;
  *out_found = false;
  if (cap <= 0) return BD_OK;
  BD_TRY(search_within(s, cap, true, lean));
  if (!lean->found) return BD_OK;
  *out_found = true;
  s->leanest = lean->best;
  s->leanest_bytes = bd_attempt_plan_bytes(&lean->best);
  if (s->leanest_bytes > s->scene.cap_bytes) return BD_OK;
  bd_search_take(s, &lean->best);
  if (s->cut) return BD_OK;
  BD_TRY(search_within(s, cap, false, fast));
  if (fast->found && fast->best.step_seconds < s->best.step_seconds &&
      bd_attempt_plan_bytes(&fast->best) <= s->scene.cap_bytes)
    bd_search_take(s, &fast->best);
  return BD_OK;
}

bd_status bd_search_confirm_leanest(bd_search *s) {
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
