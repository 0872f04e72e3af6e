// The leanest pipeline, exactly and of any size, by dynamic programming over stages: a state is how
// many layers the stages before hold, the form in which they hand on, and the form in which the
// next stage takes it; its value is the fullest of those stages. A stage is as full as its layers
// and one workspace: layers are chosen for each limit that the workspace may have.
#include "planner/pipeline/lean_skips.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Stages of more bytes than a limit are not looked at; the limit grows by such a factor until there
// is a pipeline.
#define LIMIT_FACTOR 1.5

// The state before: its layers, the form handed on, and the form taken from it.
typedef struct step {
  int layers;
  short handed, taken;
} step;

// How far a stage goes from a layer on.
typedef struct reach {
  int from, end; // from -1: not known; layers from `end` on are beyond the limit
  double *inner; // [layers][form]: bytes of so many layers, handed on in the form
  int *room_of;  // [layers][form]: the room of which they are
} reach;

typedef struct leaning {
  bd_ctx *ctx;
  const bd_pipeline_problem *problem;
  int layers;
  int *run_of;      // per layer
  int *first_layer; // per run
  int room_count;
  double *rooms; // the workspaces that candidates have, ascending
  double limit;
  double *best, *next; // [layers][handed][taken]: the fullest stage so far
  step *back;          // [stage + 1][layers][handed][taken]
  // Of the stage at hand:
  int stage;
  double least_sent; // what handing on adds at least, which may be less than nothing
  double *holds;     // [room][run][form]: bytes of a layer's leanest candidate within the room
  int *pick;         // [room][run][form]: that candidate
  reach *reaches;    // per form in which its first layer is taken
  // Of a walk through its runs:
  double *start; // [form]: bytes before the run, which is entered in the form
  double *end;   // [form]: bytes up to here, the form being the last
  int *entered;  // [run][form]: in which form the run was entered that ends in the form
  int *left;     // [run][form]: in which form the run before ended
} leaning;

static int forms_of(const leaning *l) {
  return l->problem->form_count;
}

static size_t state_of(const leaning *l, int layers, int handed, int taken) {
  return ((size_t)layers * (size_t)forms_of(l) + (size_t)handed) * (size_t)forms_of(l) +
         (size_t)taken;
}

static size_t states_of(const leaning *l) {
  return state_of(l, l->layers + 1, 0, 0);
}

static int cell_of(const leaning *l, int room, int run, int form) {
  return (room * l->problem->run_count + run) * forms_of(l) + form;
}

static int compare_bytes(const void *a, const void *b) {
  double left = *(const double *)a, right = *(const double *)b;
  return (left > right) - (left < right);
}

static void find_rooms(leaning *l) {
  const bd_pipeline_problem *p = l->problem;
  double *all = BD_NEW_ARRAY(l->ctx->arena, double, bd_pipeline_candidates(p));
  size_t count = 0, kept = 0;
  for (int r = 0; r < p->run_count; r++)
    for (int k = 0; k < p->runs[r].candidate_count; k++)
      all[count++] = (double)p->runs[r].candidates[k].workspace_bytes;
  qsort(all, count, sizeof *all, compare_bytes);
  for (size_t i = 0; i < count; i++)
    if (!i || all[i] != all[kept - 1]) all[kept++] = all[i];
  l->rooms = all;
  l->room_count = (int)kept;
}

static void open_leaning(leaning *l) {
  const bd_pipeline_problem *p = l->problem;
  bd_arena *arena = l->ctx->arena;
  int F = p->form_count, layer = 0;
  for (int r = 0; r < p->run_count; r++)
    l->layers += p->runs[r].calls;
  l->run_of = BD_NEW_ARRAY(arena, int, l->layers);
  l->first_layer = BD_NEW_ARRAY(arena, int, p->run_count);
  for (int r = 0; r < p->run_count; r++) {
    l->first_layer[r] = layer;
    for (int i = 0; i < p->runs[r].calls; i++)
      l->run_of[layer++] = r;
  }
  find_rooms(l);
  l->best = BD_NEW_ARRAY(arena, double, states_of(l));
  l->next = BD_NEW_ARRAY(arena, double, states_of(l));
  l->back = BD_NEW_ARRAY(arena, step, states_of(l) * (size_t)(p->stages + 1));
  l->holds = BD_NEW_ARRAY(arena, double, l->room_count * p->run_count * F);
  l->pick = BD_NEW_ARRAY(arena, int, l->room_count * p->run_count * F);
  l->reaches = BD_NEW_ARRAY(arena, reach, F);
  for (int f = 0; f < F; f++)
    l->reaches[f] = (reach){-1, 0, BD_NEW_ARRAY(arena, double, (l->layers + 1) * F),
                            BD_NEW_ARRAY(arena, int, (l->layers + 1) * F)};
  l->start = BD_NEW_ARRAY(arena, double, F);
  l->end = BD_NEW_ARRAY(arena, double, F);
  l->entered = BD_NEW_ARRAY(arena, int, p->run_count *F);
  l->left = BD_NEW_ARRAY(arena, int, p->run_count *F);
}

static void enter_stage(leaning *l, int stage) {
  const bd_pipeline_problem *p = l->problem;
  l->stage = stage;
  l->least_sent = bd_pipeline_least_sent_bytes(p, stage);
  for (int f = 0; f < forms_of(l); f++)
    l->reaches[f].from = -1;
  for (int i = 0; i < l->room_count * p->run_count * forms_of(l); i++)
    l->holds[i] = INFINITY;
  for (int r = 0; r < p->run_count; r++)
    for (int k = 0; k < p->runs[r].candidate_count; k++) {
      const bd_layer_candidate *c = &p->runs[r].candidates[k];
      double bytes = bd_pipeline_layer_bytes(p, stage, c);
      for (int room = 0; room < l->room_count; room++) {
        int cell = cell_of(l, room, r, c->form);
        if ((double)c->workspace_bytes > l->rooms[room] || bytes >= l->holds[cell]) continue;
        l->holds[cell] = bytes;
        l->pick[cell] = k;
      }
    }
}

// Of so many layers of a run, from the form of the first to that of the last.
static double run_bytes(const leaning *l, int room, int run, int layers, int from, int to) {
  double first = l->holds[cell_of(l, room, run, from)], last = l->holds[cell_of(l, room, run, to)];
  if (from == to) return layers * first;
  if (layers < 2 || isinf(first) || isinf(last)) return INFINITY;
  return first + last + (layers - 2) * fmin(first, last) +
         bd_pipeline_change_bytes(l->problem, l->stage, run, from, to);
}

// Up to the n-th layer of a run, which is handed on in the form `to`.
static double end_run(leaning *l, int room, int run, int n, int to) {
  double least = INFINITY;
  for (int from = 0; from < forms_of(l); from++) {
    double bytes = l->start[from] + run_bytes(l, room, run, n, from, to);
    if (bytes >= least) continue;
    least = bytes;
    l->entered[run * forms_of(l) + to] = from;
  }
  return least;
}

// From one run to the next on the stage.
static void start_run(leaning *l, int run) {
  int F = forms_of(l);
  for (int to = 0; to < F; to++) {
    l->start[to] = INFINITY;
    for (int from = 0; from < F; from++) {
      double bytes =
          l->end[from] + bd_pipeline_change_bytes(l->problem, l->stage, run - 1, from, to);
      if (bytes >= l->start[to]) continue;
      l->start[to] = bytes;
      l->left[run * F + to] = from;
    }
  }
}

// So many layers, the first of them `from`, in a workspace. Stops beyond the limit.
static void walk(leaning *l, int from, int layers, int taken, int room, double sent) {
  int F = forms_of(l), first = l->run_of[from];
  reach *to = &l->reaches[taken];
  double shared = 0;
  for (int f = 0; f < F; f++)
    l->start[f] = f == taken ? 0 : INFINITY;
  for (int at = 1; at <= layers; at++) {
    int run = l->run_of[from + at - 1], begin = l->first_layer[run];
    int n = from + at - (from > begin ? from : begin);
    double least = INFINITY;
    if (n == 1) {
      if (run > first) start_run(l, run);
      shared = bd_pipeline_shared_bytes(l->problem, first, run) + l->rooms[room];
    }
    for (int f = 0; f < F; f++) {
      l->end[f] = end_run(l, room, run, n, f);
      double bytes = l->end[f] + shared;
      least = fmin(least, bytes);
      if (bytes >= to->inner[at * F + f]) continue;
      to->inner[at * F + f] = bytes;
      to->room_of[at * F + f] = room;
    }
    if (least + sent > l->limit) return;
    if (to->end <= at) to->end = at + 1;
  }
}

// From layer `from` on, taken in the form `taken`, to wherever the stage may end. Within a run it
// is the same from every layer.
static void walk_on(leaning *l, int from, int taken) {
  reach *to = &l->reaches[taken];
  int run = l->run_of[from], run_end = l->first_layer[run] + l->problem->runs[run].calls;
  if (to->from >= 0 && l->run_of[to->from] == run && from + to->end <= run_end) return;
  to->from = from;
  to->end = 1;
  for (int i = 0; i < (l->layers + 1) * forms_of(l); i++)
    to->inner[i] = INFINITY;
  for (int room = 0; room < l->room_count && l->rooms[room] + l->least_sent <= l->limit; room++)
    walk(l, from, l->layers - from, taken, room, l->least_sent);
}

static double received(const leaning *l, int from, int handed, int taken) {
  return l->stage
             ? bd_pipeline_receive_bytes(l->problem, l->stage, l->run_of[from - 1], handed, taken)
             : 0;
}

// The stage ends before layer `to`, handed on in the form `handed` and taken in each.
static void leave(leaning *l, int to, int handed, double fullest, double bytes, step from) {
  bool last = l->stage + 1 == l->problem->stages;
  for (int taken = 0; taken < (last ? 1 : forms_of(l)); taken++) {
    double own = bytes + bd_pipeline_beside_bytes(l->problem, l->stage);
    if (!last)
      own += bd_pipeline_send_bytes(l->problem, l->stage, l->run_of[to - 1], handed, taken);
    double value = fmax(fullest, own);
    size_t state = state_of(l, to, handed, taken);
    if (value > l->limit || value >= l->next[state]) continue;
    l->next[state] = value;
    l->back[states_of(l) * (size_t)(l->stage + 1) + state] = from;
  }
}

static bool may_end(const leaning *l, int to) {
  const bd_pipeline_problem *p = l->problem;
  int after = p->stages - 1 - l->stage;
  if (after ? l->layers - to < after : to < l->layers) return false;
  return !p->cut_least || (to >= p->cut_least[l->stage] && to <= p->cut_most[l->stage]);
}

static bool is_reached(const leaning *l, int from, int taken) {
  for (int handed = 0; handed < forms_of(l); handed++)
    if (isfinite(l->best[state_of(l, from, handed, taken)])) return true;
  return false;
}

static void go_on(leaning *l, int from, int taken) {
  int F = forms_of(l);
  const reach *to = &l->reaches[taken];
  walk_on(l, from, taken);
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
    enter_stage(l, s);
    for (size_t i = 0; i < states_of(l); i++)
      l->next[i] = INFINITY;
    for (int from = 0; from < l->layers; from++)
      for (int taken = 0; taken < forms_of(l); taken++)
        if (is_reached(l, from, taken)) go_on(l, from, taken);
    double *spare = l->best;
    l->best = l->next;
    l->next = spare;
  }
  for (int f = 0; f < forms_of(l); f++) {
    double bytes = l->best[state_of(l, l->layers, f, 0)];
    if (bytes >= least) continue;
    least = bytes;
    *out_form = f;
  }
  return isfinite(least);
}

// So many layers of a run, from the form of the first to that of the last.
static void count_run(const leaning *l, int room, int run, int layers, int from, int to,
                      int *count) {
  const int *pick = l->pick;
  int first = pick[cell_of(l, room, run, from)], last = pick[cell_of(l, room, run, to)];
  bool lean_first = l->holds[cell_of(l, room, run, from)] <= l->holds[cell_of(l, room, run, to)];
  int lean = lean_first ? first : last;
  count[bd_pipeline_index(l->problem, l->stage, run, lean)] += layers;
  if (from == to) return;
  count[bd_pipeline_index(l->problem, l->stage, run, lean)]--;
  count[bd_pipeline_index(l->problem, l->stage, run, lean_first ? last : first)]++;
}

// The stage from `before` to before layer `to`, handed on in the form `handed`.
static void read_stage(leaning *l, step before, int to, int handed, bd_pipeline *out) {
  int F = forms_of(l), from = before.layers, form = handed;
  walk_on(l, from, before.taken);
  int room = l->reaches[before.taken].room_of[(to - from) * F + handed];
  walk(l, from, to - from, before.taken, room, -INFINITY);
  for (int r = l->run_of[to - 1]; r >= l->run_of[from]; r--) {
    int begin = from > l->first_layer[r] ? from : l->first_layer[r];
    int end = l->first_layer[r] + l->problem->runs[r].calls;
    int entered = l->entered[r * F + form];
    count_run(l, room, r, (end < to ? end : to) - begin, entered, form, out->count);
    out->entry[l->stage * l->problem->run_count + r] = entered;
    form = l->left[r * F + entered];
  }
}

static void read_back(leaning *l, int last_form, bd_pipeline *out) {
  const bd_pipeline_problem *p = l->problem;
  int cells = p->stages * bd_pipeline_candidates(p), layers = l->layers;
  int handed = last_form, taken = 0;
  out->count = BD_NEW_ARRAY(l->ctx->arena, int, cells);
  out->entry = BD_NEW_ARRAY(l->ctx->arena, int, p->stages * p->run_count);
  for (int i = 0; i < p->stages * p->run_count; i++)
    out->entry[i] = -1;
  for (int s = p->stages; s > 0; s--) {
    step before = l->back[states_of(l) * (size_t)s + state_of(l, layers, handed, taken)];
    enter_stage(l, s - 1);
    read_stage(l, before, layers, handed, out);
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

// What skips hold aside.
static bool find_plain(bd_ctx *ctx, const bd_pipeline_problem *problem, bd_pipeline *out) {
  leaning l = {.ctx = ctx, .problem = problem};
  double least, most;
  int form = -1;
  open_leaning(&l);
  if (problem->stages > l.layers) return false;
  find_range(&l, &least, &most);
  for (l.limit = least; !find_within(&l, &form); l.limit *= LIMIT_FACTOR)
    if (l.limit > most) return false;
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
