#include "planner/pipeline/construct.h"
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
  int layers, cells;
  int *run_of;      // per layer
  int *first_layer; // per run
  int *first_slot;  // per run: of its candidates among those of all runs
  double *takes;    // per candidate: seconds of one layer
  double *least;    // prefix sums of the fastest candidates' seconds
  double *seconds;  // [run][form]: of the fastest candidate; INFINITY: none
  double *share;    // per stage: how much longer than the last it may take
  double *taken;    // [stage before][run before][form before][entry]: to take what it hands on
  // Of the stage at hand:
  double *holds; // per candidate: bytes of one layer
  double *bytes; // [run][form]: of the leanest candidate
  double *reach; // [form]: the least cost so far, of this run and of the next
  int *back;     // [run][form]: the form before
  int from, to;  // layers
  int *forms;    // per run: chosen
  int *count;    // [candidate over all runs]
  int arc_count, arc_capacity;
  arc *arcs;
  int *first_arc, *end_arc; // per number of layers: the last arcs of the stage at hand
  double *best;             // [stage + 1][layers + 1][form]
  int *best_arc;
} construction;

static int forms_of(const construction *c) {
  return c->problem->form_count;
}

static const bd_layer_candidate *candidate_of(const construction *c, int run, int k) {
  return &c->problem->runs[run].candidates[k];
}

static int slot(const construction *c, int run, int k) {
  return c->first_slot[run] + k;
}

static void find_extremes(construction *c, int stage) {
  for (int r = 0; r < c->problem->run_count; r++) {
    for (int f = 0; f < forms_of(c); f++)
      c->seconds[r * forms_of(c) + f] = c->bytes[r * forms_of(c) + f] = INFINITY;
    for (int k = 0; k < c->problem->runs[r].candidate_count; k++) {
      const bd_layer_candidate *x = candidate_of(c, r, k);
      double *seconds = &c->seconds[r * forms_of(c) + x->form];
      double *bytes = &c->bytes[r * forms_of(c) + x->form];
      c->holds[slot(c, r, k)] = bd_pipeline_layer_bytes(c->problem, stage, x);
      *seconds = fmin(*seconds, c->takes[slot(c, r, k)]);
      *bytes = fmin(*bytes, c->holds[slot(c, r, k)]);
    }
  }
}

// Layers of the stage at hand that belong to one run.
static int layers_in(const construction *c, int run, int from, int to) {
  int first = c->first_layer[run], end = first + c->problem->runs[run].calls;
  return (to < end ? to : end) - (from > first ? from : first);
}

// Forms of the runs from `first` to `last`, the first and the last given, at least cost.
static bool choose_forms(construction *c, int from, int to, int entry, int exit, bool lean) {
  int first = c->run_of[from], last = c->run_of[to - 1], F = forms_of(c);
  const double *weight = lean ? c->bytes : c->seconds;
  double *next = c->reach + F;
  if (first == last && entry != exit) return false;
  for (int f = 0; f < F; f++)
    c->reach[f] = f == entry ? layers_in(c, first, from, to) * weight[first * F + f] : INFINITY;
  for (int r = first + 1; r <= last; r++) {
    for (int g = 0; g < F; g++) {
      next[g] = INFINITY;
      double own = layers_in(c, r, from, to) * weight[r * F + g];
      for (int f = 0; f < F; f++) {
        double change = lean ? 0 : bd_pipeline_sum(c->problem->runs[r - 1].change[f * F + g]);
        if (c->reach[f] + own + change >= next[g]) continue;
        next[g] = c->reach[f] + own + change;
        c->back[r * F + g] = f;
      }
    }
    memcpy(c->reach, next, sizeof *next * (size_t)F);
  }
  if (isinf(c->reach[exit])) return false;
  c->forms[last] = exit;
  for (int r = last; r > first; r--)
    c->forms[r - 1] = c->back[r * F + c->forms[r]];
  return true;
}

// What the stage holds for its neighbours, as if no form changed on the way.
static double passed_bytes(const construction *c, int stage) {
  int entry = c->forms[c->run_of[c->from]], last = c->run_of[c->to - 1];
  double bytes = 0;
  if (stage > 0)
    bytes += bd_pipeline_receive_bytes(c->problem, stage, c->run_of[c->from - 1], entry, entry);
  if (stage + 1 < c->problem->stages)
    bytes += bd_pipeline_send_bytes(c->problem, stage, last, c->forms[last], c->forms[last]);
  return bytes;
}

static double stage_bytes(const construction *c, int stage, int first, int last) {
  double bytes = 0, workspace = 0;
  for (int r = first; r <= last; r++)
    for (int k = 0; k < c->problem->runs[r].candidate_count; k++) {
      int n = c->count[slot(c, r, k)];
      if (!n) continue;
      bytes += n * c->holds[slot(c, r, k)];
      workspace = fmax(workspace, (double)candidate_of(c, r, k)->workspace_bytes);
    }
  for (int r = first; r < last; r++)
    bytes += bd_pipeline_change_bytes(c->problem, stage, r, c->forms[r], c->forms[r + 1]);
  return bytes + workspace + passed_bytes(c, stage) + bd_pipeline_beside_bytes(c->problem, stage) +
         bd_pipeline_shared_bytes(c->problem, first, last);
}

static double stage_seconds(const construction *c, int first, int last) {
  double seconds = 0;
  for (int r = first; r <= last; r++) {
    for (int k = 0; k < c->problem->runs[r].candidate_count; k++)
      if (c->count[slot(c, r, k)]) seconds += c->count[slot(c, r, k)] * c->takes[slot(c, r, k)];
    if (r < last)
      seconds +=
          bd_pipeline_sum(c->problem->runs[r].change[c->forms[r] * forms_of(c) + c->forms[r + 1]]);
  }
  return seconds;
}

// All layers of every run with the fastest, or leanest, candidate of its form.
static void fill(construction *c, int from, int to, bool lean) {
  memset(c->count, 0, sizeof *c->count * (size_t)c->cells);
  for (int r = c->run_of[from]; r <= c->run_of[to - 1]; r++) {
    int best = -1;
    double least = INFINITY;
    for (int k = 0; k < c->problem->runs[r].candidate_count; k++) {
      const bd_layer_candidate *x = candidate_of(c, r, k);
      double value =
          lean ? c->holds[slot(c, r, k)] + (double)x->workspace_bytes : c->takes[slot(c, r, k)];
      if (x->form != c->forms[r] || value >= least) continue;
      least = value;
      best = k;
    }
    c->count[slot(c, r, best)] = layers_in(c, r, from, to);
  }
}

typedef struct swap {
  int run, from, to;
  double price, saved;
} swap;

// The exchange of one layer's candidate that saves bytes at the least price a byte.
static swap cheapest_swap(const construction *c, int first, int last) {
  swap best = {.run = -1, .price = INFINITY};
  for (int r = first; r <= last; r++)
    for (int k = 0; k < c->problem->runs[r].candidate_count; k++) {
      const bd_layer_candidate *x = candidate_of(c, r, k);
      if (!c->count[slot(c, r, k)]) continue;
      for (int j = 0; j < c->problem->runs[r].candidate_count; j++) {
        const bd_layer_candidate *y = candidate_of(c, r, j);
        double saved = c->holds[slot(c, r, k)] - c->holds[slot(c, r, j)];
        if (y->form != x->form || saved <= 0) continue;
        double price = (c->takes[slot(c, r, j)] - c->takes[slot(c, r, k)]) / saved;
        if (price < best.price) best = (swap){r, k, j, price, saved};
      }
    }
  return best;
}

// Exchanges candidates until the stage is within the cap.
static bool fit(construction *c, int stage, int first, int last) {
  double over;
  while ((over = stage_bytes(c, stage, first, last) - (double)c->problem->cap_bytes) > 0) {
    swap s = cheapest_swap(c, first, last);
    if (s.run < 0) return false;
    int *from = &c->count[slot(c, s.run, s.from)];
    int moved = (int)ceil(over / s.saved);
    if (moved > *from) moved = *from;
    *from -= moved;
    c->count[slot(c, s.run, s.to)] += moved;
  }
  return true;
}

// The counts of one stage; false when it cannot be.
static bool build_stage(construction *c, int stage, int from, int to, int entry, int exit,
                        double *out_cost) {
  int first = c->run_of[from], last = c->run_of[to - 1];
  c->from = from;
  c->to = to;
  for (int lean = 0; lean < 2; lean++) {
    if (!choose_forms(c, from, to, entry, exit, lean)) return false;
    fill(c, from, to, lean);
    if (!fit(c, stage, first, last)) continue;
    *out_cost = stage_seconds(c, first, last);
    return true;
  }
  return false;
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
  const bd_pipeline_run *run = &c->problem->runs[c->run_of[layer]];
  return bd_pipeline_sum(run->send[bd_pipeline_hand_at(c->problem, stage, form, form)]);
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
          c->run_of[from - 1] == c->run_of[to - 1]) {
        for (int i = c->first_arc[layers]; i < c->end_arc[layers]; i++)
          c->arcs[i].shifts++;
        continue;
      }
      c->first_arc[layers] = c->arc_count;
      for (int f = 0; f < F; f++)
        for (int g = 0; g < F; g++) {
          arc a = {stage, from, to, 0, f, g, 0};
          if (!build_stage(c, stage, from, to, f, g, &a.cost)) continue;
          if (stage < last_stage) a.cost += sent(c, stage, to - 1, g);
          add_arc(c, a);
        }
      c->end_arc[layers] = c->arc_count;
    }
}

static void find_arcs(construction *c) {
  int stages = c->problem->stages;
  for (int s = 0; s < stages; s++) {
    find_extremes(c, s);
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
  for (int s = 0; s + 1 < p->stages; s++)
    for (int r = 0; r < p->run_count; r++)
      for (int before = 0; before < p->form_count; before++)
        for (int entry = 0; entry < p->form_count; entry++) {
          const bd_pipeline_run *run = &p->runs[r];
          int at = bd_pipeline_hand_at(p, s, before, entry);
          taken_at(c, s, r, before)[entry] =
              bd_pipeline_sum(run->receive[at]) + bd_pipeline_sum(run->send[at]) -
              bd_pipeline_sum(run->send[bd_pipeline_hand_at(p, s, before, before)]);
        }
}

// Goes on with an arc, so many layers later, from what comes before it.
static void extend(construction *c, int index, int shift, double limit) {
  const arc *a = &c->arcs[index];
  int F = forms_of(c), from = a->from + shift;
  const double *before = &c->best[state_of(c, a->stage, from, 0)];
  const double *taken =
      a->stage ? taken_at(c, a->stage - 1, c->run_of[from - 1], 0) + a->entry : NULL;
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
  for (int i = 0; i < c->arc_count; i++)
    for (int shift = 0; shift <= c->arcs[i].shifts; shift++)
      extend(c, i, shift, limit);
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
    double taken = s > 1 ? taken_at(c, s - 2, c->run_of[layer - 1], form)[a->entry] : 0;
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
    find_extremes(c, a->stage);
    int from = layer - (a->to - a->from);
    if (!build_stage(c, a->stage, from, layer, a->entry, a->exit, &cost)) return;
    memcpy(&count[a->stage * c->cells], c->count, sizeof *count * (size_t)c->cells);
    for (int r = c->run_of[from]; r <= c->run_of[layer - 1]; r++)
      entry[a->stage * p->run_count + r] = c->forms[r];
    layer = from;
    form = code % F;
  }
}

static void start(construction *c) {
  const bd_pipeline_problem *p = c->problem;
  bd_arena *arena = c->ctx->arena;
  for (int r = 0; r < p->run_count; r++)
    c->layers += p->runs[r].calls;
  c->cells = bd_pipeline_candidates(p);
  c->run_of = BD_NEW_ARRAY(arena, int, c->layers + 1);
  c->first_layer = BD_NEW_ARRAY(arena, int, p->run_count);
  c->first_slot = BD_NEW_ARRAY(arena, int, p->run_count);
  c->takes = BD_NEW_ARRAY(arena, double, c->cells);
  c->holds = BD_NEW_ARRAY(arena, double, c->cells);
  c->least = BD_NEW_ARRAY(arena, double, c->layers + 1);
  c->share = BD_NEW_ARRAY(arena, double, p->stages);
  c->taken = BD_NEW_ARRAY(arena, double, p->stages * p->run_count * p->form_count * p->form_count);
  c->seconds = BD_NEW_ARRAY(arena, double, p->run_count * p->form_count);
  c->bytes = BD_NEW_ARRAY(arena, double, p->run_count * p->form_count);
  c->reach = BD_NEW_ARRAY(arena, double, 2 * p->form_count);
  c->back = BD_NEW_ARRAY(arena, int, p->run_count * p->form_count);
  c->forms = BD_NEW_ARRAY(arena, int, p->run_count);
  c->count = BD_NEW_ARRAY(arena, int, c->cells);
  c->first_arc = BD_NEW_ARRAY(arena, int, c->layers + 1);
  c->end_arc = BD_NEW_ARRAY(arena, int, c->layers + 1);
  size_t states = state_of(c, p->stages, c->layers, p->form_count - 1) + 1;
  c->best = BD_NEW_ARRAY(arena, double, states);
  c->best_arc = BD_NEW_ARRAY(arena, int, states);
  for (int r = 0, cell = 0; r < p->run_count; r++) {
    c->first_slot[r] = cell;
    for (int k = 0; k < p->runs[r].candidate_count; k++)
      c->takes[cell++] = bd_pipeline_layer_seconds(candidate_of(c, r, k));
  }
  find_taken(c);
  find_extremes(c, 0);
  for (int r = 0, layer = 0; r < p->run_count; r++) {
    double fastest = INFINITY;
    for (int f = 0; f < p->form_count; f++)
      fastest = fmin(fastest, c->seconds[r * p->form_count + f]);
    c->first_layer[r] = layer;
    for (int i = 0; i < p->runs[r].calls; i++, layer++) {
      c->run_of[layer] = r;
      c->least[layer + 1] = c->least[layer] + fastest;
    }
  }
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
