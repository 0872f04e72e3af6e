#include "planner/step/path.h"
#include <assert.h>

// A pass: on stage `stage` with micro-batch `at`.
typedef struct place {
  bool backward;
  int stage, at;
} place;

typedef struct walk {
  int stages, micro_batches;
  const int *in_flight;       // per stage
  double *forward, *backward; // ends, per stage and micro-batch
} walk;

// Whether a pass waits for one of another stage with its micro-batch.
static bool comes_in(const walk *w, place p, place *out) {
  *out = (place){p.backward, p.stage + (p.backward ? 1 : -1), p.at};
  return out->stage >= 0 && out->stage < w->stages;
}

// Whether a pass follows another one on its stage: as many forward passes as are in flight, then in
// turn, as long as there are any.
static bool comes_after(const walk *w, place p, place *out) {
  int ahead = w->in_flight[p.stage], last = p.at + ahead - 1;
  if (p.backward)
    *out =
        last < w->micro_batches ? (place){false, p.stage, last} : (place){true, p.stage, p.at - 1};
  else
    *out = p.at < ahead ? (place){false, p.stage, p.at - 1} : (place){true, p.stage, p.at - ahead};
  return out->at >= 0;
}

static double *end_of(const walk *w, place p) {
  return &(p.backward ? w->backward : w->forward)[p.stage * w->micro_batches + p.at];
}

// The pass that a pass waits for longest; false: it is the first.
static bool waits_for(const walk *w, place p, place *out) {
  place other, before;
  bool in = comes_in(w, p, &other), after = comes_after(w, p, &before);
  *out = after && (!in || *end_of(w, before) >= *end_of(w, other)) ? before : other;
  return in || after;
}

static void run(const walk *w, place p, const bd_stage_seconds *stage) {
  place before;
  double ready = waits_for(w, p, &before) ? *end_of(w, before) : 0;
  *end_of(w, p) = ready + (p.backward ? stage[p.stage].backward : stage[p.stage].forward);
}

static void run_all(const walk *w, const bd_stage_seconds *stage) {
  for (int turn = 0; turn < w->micro_batches + w->in_flight[0] - 1; turn++) {
    for (int s = 0; s < w->stages && turn < w->micro_batches; s++)
      run(w, (place){false, s, turn}, stage);
    for (int s = w->stages - 1; s >= 0; s--) {
      place p = {true, s, turn - w->in_flight[s] + 1};
      if (p.at >= 0 && p.at < w->micro_batches) run(w, p, stage);
    }
  }
}

void bd_step_find_path(bd_ctx *ctx, bd_schedule schedule, int stages, int micro_batches,
                       const bd_stage_seconds *stage, bd_step_path *out) {
  int *in_flight = BD_NEW_ARRAY(ctx->arena, int, stages), cells = stages * micro_batches;
  assert(bd_schedule_emitted(schedule));
  for (int s = 0; s < stages; s++)
    in_flight[s] = bd_schedule_in_flight(schedule, s, stages, micro_batches);
  walk w = {stages, micro_batches, in_flight, BD_NEW_ARRAY(ctx->arena, double, cells),
            BD_NEW_ARRAY(ctx->arena, double, cells)};
  run_all(&w, stage);
  out->forwards = BD_NEW_ARRAY(ctx->arena, int, stages);
  out->backwards = BD_NEW_ARRAY(ctx->arena, int, stages);
  place p = {true, 0, micro_batches - 1}, before;
  out->seconds = *end_of(&w, p);
  for (bool more = true; more; p = before) {
    (p.backward ? out->backwards : out->forwards)[p.stage]++;
    more = waits_for(&w, p, &before);
  }
}
