#include "planner/pipeline/construct.h"
#include "planner/pipeline/build.h"
#include "planner/step/bound.h"
#include <math.h>
#include <string.h>

// Stages are not looked at when their layers alone take this many times the average.
#define WINDOW 2.5

enum { SHARES = 3 }; // ways for stages to share, beside alike

// How much slower than the least possible the slowest stage may be, for a shorter sum.
static const double slack[] = {INFINITY, 1.3, 1.1, 1.03, 1.01, 1.002, 1};

// A way to run some layers on one stage: from `from` to before `to`, and as many layers of the same
// run after them, up to `shifts` layers later.
typedef struct arc {
  int stage, from, to, shifts, entry, exit;
  double cost; // seconds of a micro-batch, what it hands on included
} arc;

typedef struct construction {
  bd_ctx *ctx;
  const bd_pipeline_problem *problem;
  bd_stage_builder builder;
  int layers, cells;
  double *least;       // prefix sums of the fastest candidates' seconds
  double *share;       // per stage: how much longer than the last it may take
  double *taken;       // [stage before][run before][form before][entry]: to take what it hands on
  double *least_taken; // per stage: the least of these that it may have
  int arc_count, arc_capacity;
  arc *arcs;
  int *first_arc, *end_arc; // per number of layers: the last arcs of the stage at hand
  double *best;             // [stage + 1][layers + 1][form]
  int *best_arc;
} construction;

static int forms_of(const construction *c) {
  return c->problem->form_count;
}

static void add_arc(construction *c, arc added) {
  if (c->arc_count == c->arc_capacity) {
    int wanted = c->arc_capacity ? 2 * c->arc_capacity : 1024;
    c->arcs = bd_arena_grow(c->ctx->arena, c->arcs, (size_t)c->arc_count, (size_t)wanted,
                            sizeof *c->arcs);
    c->arc_capacity = wanted;
  }
  c->arcs[c->arc_count++] = added;
}

// What a stage takes to hand on what the layer makes in a form.
static double sent(const construction *c, int stage, int layer, int form) {
  const bd_pipeline_run *run = &c->problem->runs[c->builder.run_of[layer]];
  return bd_pipeline_sum(run->send[bd_pipeline_hand_at(c->problem, stage, form, form)]);
}

// With these layers in this form.
static void add_arcs_of(construction *c, int stage, int from, int to, int entry) {
  bd_stage_enter(&c->builder, from, to, entry);
  for (int exit = 0; exit < forms_of(c); exit++) {
    arc a = {stage, from, to, 0, entry, exit, 0};
    if (!bd_stage_build(&c->builder, exit, &a.cost)) continue;
    if (stage + 1 < c->problem->stages) a.cost += sent(c, stage, to - 1, exit);
    add_arc(c, a);
  }
}

// Inside one run, stages that start at different layers are alike.
static void add_arcs(construction *c, int stage, int from_least, int from_most) {
  int last_stage = c->problem->stages - 1, F = forms_of(c);
  double widest = WINDOW * c->least[c->layers] / c->problem->stages;
  bool cuts = c->problem->cut_least != NULL;
  for (int from = from_least; from <= from_most; from++)
    for (int to = from + 1; to <= c->layers; to++) {
      if (stage == last_stage ? to < c->layers : c->layers - to < last_stage - stage) continue;
      if (cuts && (to < c->problem->cut_least[stage] || to > c->problem->cut_most[stage])) continue;
      if (!cuts && to > from + 1 && c->least[to] - c->least[from] > widest) break;
      int layers = to - from;
      if (!cuts && from > from_least && stage < last_stage &&
          c->builder.run_of[from - 1] == c->builder.run_of[to - 1]) {
        for (int i = c->first_arc[layers]; i < c->end_arc[layers]; i++)
          c->arcs[i].shifts++;
        continue;
      }
      c->first_arc[layers] = c->arc_count;
      for (int f = 0; f < F; f++)
        add_arcs_of(c, stage, from, to, f);
      c->end_arc[layers] = c->arc_count;
    }
}

static void find_arcs(construction *c) {
  int stages = c->problem->stages;
  for (int s = 0; s < stages; s++) {
    bd_stage_builder_go_to(&c->builder, s);
    int most = c->layers - (stages - s);
    add_arcs(c, s, s, s == 0 ? 0 : most);
  }
}

static size_t state_of(const construction *c, int stage, int layer, int form) {
  return ((size_t)stage * (size_t)(c->layers + 1) + (size_t)layer) * (size_t)forms_of(c) +
         (size_t)form;
}

static double *taken_at(const construction *c, int stage, int run, int form) {
  return &c->taken[((stage * c->problem->run_count + run) * forms_of(c) + form) * forms_of(c)];
}

// What stages take for what they get. The sender is charged as if the form stayed; the receiver
// pays the difference.
static void find_taken(construction *c) {
  const bd_pipeline_problem *p = c->problem;
  for (int s = 1; s < p->stages; s++)
    c->least_taken[s] = INFINITY;
  for (int s = 0; s + 1 < p->stages; s++)
    for (int r = 0; r < p->run_count; r++)
      for (int before = 0; before < p->form_count; before++)
        for (int entry = 0; entry < p->form_count; entry++) {
          const bd_pipeline_run *run = &p->runs[r];
          int at = bd_pipeline_hand_at(p, s, before, entry);
          taken_at(c, s, r, before)[entry] =
              bd_pipeline_sum(run->receive[at]) + bd_pipeline_sum(run->send[at]) -
              bd_pipeline_sum(run->send[bd_pipeline_hand_at(p, s, before, before)]);
          c->least_taken[s + 1] = fmin(c->least_taken[s + 1], taken_at(c, s, r, before)[entry]);
        }
}

// Goes on with an arc, so many layers later, from what comes before it.
static void extend(construction *c, int index, int shift, double limit) {
  const arc *a = &c->arcs[index];
  int F = forms_of(c), from = a->from + shift;
  const double *before = &c->best[state_of(c, a->stage, from, 0)];
  const double *taken =
      a->stage ? taken_at(c, a->stage - 1, c->builder.run_of[from - 1], 0) + a->entry : NULL;
  size_t to = state_of(c, a->stage + 1, a->to + shift, a->exit);
  for (int f = 0; f < (a->stage ? F : 1); f++) {
    if (isinf(before[f])) continue;
    double own = a->cost + (taken ? taken[f * F] : 0), shared = own / c->share[a->stage];
    double total = isnan(limit) ? fmax(before[f], shared) : before[f] + own;
    if (shared > limit || total >= c->best[to]) continue;
    c->best[to] = total;
    c->best_arc[to] = index * F + f;
  }
}

// The least sum of stages none of which takes more than `limit` for its share; with `limit` NAN,
// the least slowest stage. INFINITY when there is none.
static double cut_chain(construction *c, double limit) {
  int stages = c->problem->stages, F = forms_of(c);
  size_t states = state_of(c, stages, c->layers, F - 1) + 1;
  for (size_t i = 0; i < states; i++)
    c->best[i] = INFINITY;
  for (int f = 0; f < F; f++)
    c->best[state_of(c, 0, 0, f)] = 0;
  for (int i = 0; i < c->arc_count; i++) {
    const arc *a = &c->arcs[i];
    if ((a->cost + c->least_taken[a->stage]) / c->share[a->stage] > limit) continue;
    for (int shift = 0; shift <= a->shifts; shift++)
      extend(c, i, shift, limit);
  }
  double least = INFINITY;
  for (int f = 0; f < F; f++)
    least = fmin(least, c->best[state_of(c, stages, c->layers, f)]);
  return least;
}

// The form in which the last cut ends.
static int last_form(const construction *c) {
  const double *last = &c->best[state_of(c, c->problem->stages, c->layers, 0)];
  int form = 0;
  for (int f = 1; f < forms_of(c); f++)
    if (last[f] < last[form]) form = f;
  return form;
}

// What the slowest stage of the last cut takes for its share.
static double slowest_share(const construction *c) {
  int layer = c->layers, form = last_form(c), F = forms_of(c);
  double slowest = 0;
  for (int s = c->problem->stages; s > 0; s--) {
    int code = c->best_arc[state_of(c, s, layer, form)];
    const arc *a = &c->arcs[code / F];
    layer -= a->to - a->from;
    form = code % F;
    double taken = s > 1 ? taken_at(c, s - 2, c->builder.run_of[layer - 1], form)[a->entry] : 0;
    slowest = fmax(slowest, (a->cost + taken) / c->share[a->stage]);
  }
  return slowest;
}

// The assignment of the last cut.
static void read_chain(construction *c, int *count, int *entry) {
  const bd_pipeline_problem *p = c->problem;
  int layer = c->layers, form = last_form(c), F = forms_of(c);
  memset(count, 0, sizeof *count * (size_t)(p->stages * c->cells));
  for (int i = 0; i < p->stages * p->run_count; i++)
    entry[i] = -1;
  for (int s = p->stages; s > 0; s--) {
    int code = c->best_arc[state_of(c, s, layer, form)];
    const arc *a = &c->arcs[code / F];
    double cost;
    bd_stage_builder_go_to(&c->builder, a->stage);
    int from = layer - (a->to - a->from);
    bd_stage_enter(&c->builder, from, layer, a->entry);
    if (!bd_stage_build(&c->builder, a->exit, &cost)) return;
    memcpy(&count[a->stage * c->cells], c->builder.count, sizeof *count * (size_t)c->cells);
    for (int r = c->builder.run_of[from]; r <= c->builder.run_of[layer - 1]; r++)
      entry[a->stage * p->run_count + r] = c->builder.forms[r];
    layer = from;
    form = code % F;
  }
}

// Of the fastest candidates, whatever their form.
static void find_least(construction *c) {
  const bd_pipeline_problem *p = c->problem;
  for (int r = 0, layer = 0; r < p->run_count; r++) {
    double fastest = INFINITY;
    for (int f = 0; f < p->form_count; f++)
      fastest = fmin(fastest, c->builder.seconds[r * p->form_count + f]);
    for (int i = 0; i < p->runs[r].calls; i++, layer++)
      c->least[layer + 1] = c->least[layer] + fastest;
  }
}

static void start(construction *c) {
  const bd_pipeline_problem *p = c->problem;
  bd_arena *arena = c->ctx->arena;
  c->builder = bd_stage_builder_create(arena, p);
  c->layers = c->builder.layers;
  c->cells = c->builder.cells;
  c->least = BD_NEW_ARRAY(arena, double, c->layers + 1);
  c->share = BD_NEW_ARRAY(arena, double, p->stages);
  c->taken = BD_NEW_ARRAY(arena, double, p->stages * p->run_count * p->form_count * p->form_count);
  c->least_taken = BD_NEW_ARRAY(arena, double, p->stages);
  c->first_arc = BD_NEW_ARRAY(arena, int, c->layers + 1);
  c->end_arc = BD_NEW_ARRAY(arena, int, c->layers + 1);
  size_t states = state_of(c, p->stages, c->layers, p->form_count - 1) + 1;
  c->best = BD_NEW_ARRAY(arena, double, states);
  c->best_arc = BD_NEW_ARRAY(arena, int, states);
  find_taken(c);
  find_least(c);
}

static void offer(construction *c, bd_pipeline *out) {
  const bd_pipeline_problem *p = c->problem;
  int *count = BD_NEW_ARRAY(c->ctx->arena, int, p->stages * c->cells);
  int *entry = BD_NEW_ARRAY(c->ctx->arena, int, p->stages * p->run_count);
  read_chain(c, count, entry);
  double seconds = bd_pipeline_seconds(p, count, entry);
  if (out->count && seconds >= out->seconds) return;
  out->count = count;
  out->entry = entry;
  out->seconds = seconds;
  out->bytes = (int64_t)bd_pipeline_bytes(p, count, entry);
  out->feasible = isfinite(seconds);
}

// Stages share alike, or go the `part`-th part of the way to what the step's order lets them take:
// where micro-batches are few, earlier stages more. False when that comes to the same.
static bool find_shares(construction *c, int part) {
  const bd_pipeline_problem *p = c->problem;
  double after = 0, widest = 1;
  for (int s = p->stages - 1; s >= 0; s--) {
    double most = bd_step_most_seconds(p->schedule, s, p->stages, p->micro_batches, after, 1);
    double share = p->micro_batches > 1 ? most * (p->micro_batches - 1) : 1;
    after += most;
    c->share[s] = 1 + (share - 1) * part / SHARES;
    widest = fmax(widest, share);
  }
  return part == 0 || widest > 1 + 1e-9;
}

void bd_pipeline_construct(bd_ctx *ctx, const bd_pipeline_problem *problem, bd_pipeline *out) {
  construction c = {.ctx = ctx, .problem = problem};
  *out = (bd_pipeline){.seconds = INFINITY, .bound = -INFINITY};
  start(&c);
  if (problem->stages > c.layers) return;
  find_arcs(&c);
  for (int part = 0; part <= SHARES && find_shares(&c, part); part++) {
    double slowest = cut_chain(&c, NAN), reached = INFINITY;
    if (isinf(slowest)) return;
    // A limit that the last cut keeps would give it again.
    for (size_t i = 0; i < sizeof slack / sizeof *slack; i++) {
      if (i && reached <= slowest * slack[i]) continue;
      if (isinf(cut_chain(&c, slowest * slack[i]))) break;
      reached = slowest_share(&c);
      offer(&c, out);
    }
  }
}
