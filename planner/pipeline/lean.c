// The leanest pipeline, exactly and of any size, by dynamic programming over stages: a state is how
// many layers the stages before hold, the form in which they hand on, and the form in which the
// next stage takes it; its value is the fullest of those stages.
#include "planner/pipeline/lean_skips.h"
#include "planner/pipeline/lean_stage.h"
#include <math.h>

// Stages of more bytes than a limit are not looked at; the limit grows by such a factor until there
// is a pipeline.
#define LIMIT_FACTOR 1.5

// The state before: its layers, the form handed on, and the form taken from it.
typedef struct step {
  int layers;
  short handed, taken;
} step;

typedef struct leaning {
  bd_ctx *ctx;
  const bd_pipeline_problem *problem;
  bd_lean_stage at;
  double *best, *next; // [layers][handed][taken]: the fullest stage so far
  step *back;          // [stage + 1][layers][handed][taken]
} leaning;

static int forms_of(const leaning *l) {
  return l->problem->form_count;
}

static size_t state_of(const leaning *l, int layers, int handed, int taken) {
  return ((size_t)layers * (size_t)forms_of(l) + (size_t)handed) * (size_t)forms_of(l) +
         (size_t)taken;
}

static size_t states_of(const leaning *l) {
  return state_of(l, l->at.layers + 1, 0, 0);
}

static double received(const leaning *l, int from, int handed, int taken) {
  return l->at.stage ? bd_pipeline_receive_bytes(l->problem, l->at.stage, l->at.run_of[from - 1],
                                                 handed, taken)
                     : 0;
}

// The stage ends before layer `to`, handed on in the form `handed` and taken in each.
static void leave(leaning *l, int to, int handed, double fullest, double bytes, step from) {
  bool last = l->at.stage + 1 == l->problem->stages;
  for (int taken = 0; taken < (last ? 1 : forms_of(l)); taken++) {
    double own = bytes + bd_pipeline_beside_bytes(l->problem, l->at.stage);
    if (!last)
      own += bd_pipeline_send_bytes(l->problem, l->at.stage, l->at.run_of[to - 1], handed, taken);
    double value = fmax(fullest, own);
    size_t state = state_of(l, to, handed, taken);
    if (value > l->at.limit || value >= l->next[state]) continue;
    l->next[state] = value;
    l->back[states_of(l) * (size_t)(l->at.stage + 1) + state] = from;
  }
}

static bool may_end(const leaning *l, int to) {
  const bd_pipeline_problem *p = l->problem;
  int after = p->stages - 1 - l->at.stage;
  if (after ? l->at.layers - to < after : to < l->at.layers) return false;
  return !p->cut_least || (to >= p->cut_least[l->at.stage] && to <= p->cut_most[l->at.stage]);
}

static bool is_reached(const leaning *l, int from, int taken) {
  for (int handed = 0; handed < forms_of(l); handed++)
    if (isfinite(l->best[state_of(l, from, handed, taken)])) return true;
  return false;
}

static void go_on(leaning *l, int from, int taken) {
  int F = forms_of(l);
  const bd_lean_reach *to = bd_lean_stage_reach(&l->at, from, taken);
  for (int before = 0; before < F; before++) {
    double fullest = l->best[state_of(l, from, before, taken)];
    if (isinf(fullest)) continue;
    double got = received(l, from, before, taken);
    step back = {from, (short)before, (short)taken};
    for (int n = 1; n < to->end; n++)
      for (int f = 0; f < F && may_end(l, from + n); f++)
        if (isfinite(to->inner[n * F + f]))
          leave(l, from + n, f, fullest, to->inner[n * F + f] + got, back);
  }
}

// Whether there is a pipeline within the limit; `*out_form`: in which form its last layer is.
static bool find_within(leaning *l, int *out_form) {
  double least = INFINITY;
  for (size_t i = 0; i < states_of(l); i++)
    l->best[i] = INFINITY;
  for (int f = 0; f < forms_of(l); f++)
    l->best[state_of(l, 0, f, f)] = 0;
  for (int s = 0; s < l->problem->stages; s++) {
    bd_lean_stage_enter(&l->at, s);
    for (size_t i = 0; i < states_of(l); i++)
      l->next[i] = INFINITY;
    for (int from = 0; from < l->at.layers; from++)
      for (int taken = 0; taken < forms_of(l); taken++)
        if (is_reached(l, from, taken)) go_on(l, from, taken);
    double *spare = l->best;
    l->best = l->next;
    l->next = spare;
  }
  for (int f = 0; f < forms_of(l); f++) {
    double bytes = l->best[state_of(l, l->at.layers, f, 0)];
    if (bytes >= least) continue;
    least = bytes;
    *out_form = f;
  }
  return isfinite(least);
}

static void read_back(leaning *l, int last_form, bd_pipeline *out) {
  const bd_pipeline_problem *p = l->problem;
  int cells = p->stages * bd_pipeline_candidates(p), layers = l->at.layers;
  int handed = last_form, taken = 0;
  out->count = BD_NEW_ARRAY(l->ctx->arena, int, cells);
  out->entry = BD_NEW_ARRAY(l->ctx->arena, int, p->stages * p->run_count);
  for (int i = 0; i < p->stages * p->run_count; i++)
    out->entry[i] = -1;
  for (int s = p->stages; s > 0; s--) {
    step before = l->back[states_of(l) * (size_t)s + state_of(l, layers, handed, taken)];
    bd_lean_stage_enter(&l->at, s - 1);
    bd_lean_stage_read(&l->at, before.layers, before.taken, layers, handed, out);
    layers = before.layers;
    handed = before.handed;
    taken = before.taken;
  }
}

// The least and the most that the stages of any pipeline hold, roughly.
static void find_range(leaning *l, double *out_least, double *out_most) {
  const bd_pipeline_problem *p = l->problem;
  int in_flight = bd_schedule_in_flight(p->schedule, 0, p->stages, p->micro_batches);
  *out_least = 1;
  *out_most = 0;
  for (int s = 0; s < p->stages; s++)
    *out_most = fmax(*out_most, bd_pipeline_beside_bytes(p, s));
  for (int r = 0; r < p->run_count; r++) {
    double least = INFINITY, most = 0, handed = 0;
    for (int k = 0; k < p->runs[r].candidate_count; k++) {
      const bd_layer_candidate *c = &p->runs[r].candidates[k];
      least = fmin(least, bd_pipeline_layer_bytes(p, p->stages - 1, c));
      most = fmax(most, bd_pipeline_layer_bytes(p, 0, c) + (double)c->workspace_bytes);
    }
    for (int f = 0; f < forms_of(l); f++)
      handed = fmax(handed, p->runs[r].handed_bytes[f]);
    if (isfinite(least)) *out_least += p->runs[r].calls * least / p->stages;
    *out_most += p->runs[r].calls * (most + (in_flight + 4) * handed);
  }
  *out_most += bd_pipeline_shared_bytes(p, 0, p->run_count - 1);
}

static void open_leaning(leaning *l) {
  bd_arena *arena = l->ctx->arena;
  bd_lean_stage_open(l->ctx, l->problem, &l->at);
  l->best = BD_NEW_ARRAY(arena, double, states_of(l));
  l->next = BD_NEW_ARRAY(arena, double, states_of(l));
  l->back = BD_NEW_ARRAY(arena, step, states_of(l) * (size_t)(l->problem->stages + 1));
}

// What skips hold aside.
static bool find_plain(bd_ctx *ctx, const bd_pipeline_problem *problem, bd_pipeline *out) {
  leaning l = {.ctx = ctx, .problem = problem};
  double least, most;
  int form = -1;
  open_leaning(&l);
  if (problem->stages > l.at.layers) return false;
  find_range(&l, &least, &most);
  for (l.at.limit = least; !find_within(&l, &form); l.at.limit *= LIMIT_FACTOR)
    if (l.at.limit > most) return false;
  read_back(&l, form, out);
  return true;
}

void bd_pipeline_leanest(bd_ctx *ctx, const bd_pipeline_problem *problem, bd_pipeline *out) {
  bd_pipeline_problem plain = *problem;
  plain.skip_count = 0;
  *out = (bd_pipeline){.seconds = INFINITY, .bound = -INFINITY};
  if (!find_plain(ctx, &plain, out)) return;
  out->bytes = (int64_t)bd_pipeline_bytes(problem, out->count, out->entry);
  out->feasible = out->optimal = true;
  if (problem->skip_count)
    bd_pipeline_lean_skips(ctx, problem, bd_pipeline_bytes(&plain, out->count, out->entry), out);
  out->seconds = bd_pipeline_seconds(problem, out->count, out->entry);
}
