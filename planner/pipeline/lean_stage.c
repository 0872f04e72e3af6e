#include "planner/pipeline/lean_stage.h"
#include <math.h>
#include <stdlib.h>

static int cell_of(const bd_lean_stage *l, int room, int run, int form) {
  return (room * l->problem->run_count + run) * l->problem->form_count + form;
}

static int compare_bytes(const void *a, const void *b) {
  double left = *(const double *)a, right = *(const double *)b;
  return (left > right) - (left < right);
}

static void find_rooms(bd_ctx *ctx, bd_lean_stage *l) {
  const bd_pipeline_problem *p = l->problem;
  double *all = BD_NEW_ARRAY(ctx->arena, double, bd_pipeline_candidates(p));
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

void bd_lean_stage_open(bd_ctx *ctx, const bd_pipeline_problem *p, bd_lean_stage *l) {
  *l = (bd_lean_stage){.problem = p};
  bd_arena *arena = ctx->arena;
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
  find_rooms(ctx, l);
  l->holds = BD_NEW_ARRAY(arena, double, l->room_count * p->run_count * F);
  l->pick = BD_NEW_ARRAY(arena, int, l->room_count * p->run_count * F);
  l->reaches = BD_NEW_ARRAY(arena, bd_lean_reach, F);
  for (int f = 0; f < F; f++)
    l->reaches[f] = (bd_lean_reach){-1, 0, BD_NEW_ARRAY(arena, double, (l->layers + 1) * F),
                                    BD_NEW_ARRAY(arena, int, (l->layers + 1) * F)};
  l->start = BD_NEW_ARRAY(arena, double, F);
  l->end = BD_NEW_ARRAY(arena, double, F);
  l->entered = BD_NEW_ARRAY(arena, int, p->run_count *F);
  l->left = BD_NEW_ARRAY(arena, int, p->run_count *F);
}

void bd_lean_stage_enter(bd_lean_stage *l, int stage) {
  const bd_pipeline_problem *p = l->problem;
  l->stage = stage;
  l->least_sent = bd_pipeline_least_sent_bytes(p, stage);
  for (int f = 0; f < l->problem->form_count; f++)
    l->reaches[f].from = -1;
  for (int i = 0; i < l->room_count * p->run_count * l->problem->form_count; i++)
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
static double run_bytes(const bd_lean_stage *l, int room, int run, int layers, int from, int to) {
  double first = l->holds[cell_of(l, room, run, from)], last = l->holds[cell_of(l, room, run, to)];
  if (from == to) return layers * first;
  if (layers < 2 || isinf(first) || isinf(last)) return INFINITY;
  return first + last + (layers - 2) * fmin(first, last) +
         bd_pipeline_change_bytes(l->problem, l->stage, run, from, to);
}

// Up to the n-th layer of a run, which is handed on in the form `to`.
static double end_run(bd_lean_stage *l, int room, int run, int n, int to) {
  double least = INFINITY;
  for (int from = 0; from < l->problem->form_count; from++) {
    double bytes = l->start[from] + run_bytes(l, room, run, n, from, to);
    if (bytes >= least) continue;
    least = bytes;
    l->entered[run * l->problem->form_count + to] = from;
  }
  return least;
}

// From one run to the next on the stage.
static void start_run(bd_lean_stage *l, int run) {
  int F = l->problem->form_count;
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
static void walk(bd_lean_stage *l, int from, int layers, int taken, int room, double sent) {
  int F = l->problem->form_count, first = l->run_of[from];
  bd_lean_reach *to = &l->reaches[taken];
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

const bd_lean_reach *bd_lean_stage_reach(bd_lean_stage *l, int from, int taken) {
  bd_lean_reach *to = &l->reaches[taken];
  int run = l->run_of[from], run_end = l->first_layer[run] + l->problem->runs[run].calls;
  if (to->from >= 0 && l->run_of[to->from] == run && from + to->end <= run_end) return to;
  to->from = from;
  to->end = 1;
  for (int i = 0; i < (l->layers + 1) * l->problem->form_count; i++)
    to->inner[i] = INFINITY;
  for (int room = 0; room < l->room_count && l->rooms[room] + l->least_sent <= l->limit; room++)
    walk(l, from, l->layers - from, taken, room, l->least_sent);
  return to;
}

// So many layers of a run, from the form of the first to that of the last.
static void count_run(const bd_lean_stage *l, int room, int run, int layers, int from, int to,
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

void bd_lean_stage_read(bd_lean_stage *l, int from, int taken, int to, int handed,
                        bd_pipeline *out) {
  int F = l->problem->form_count, form = handed;
  int room = bd_lean_stage_reach(l, from, taken)->room_of[(to - from) * F + handed];
  walk(l, from, to - from, taken, room, -INFINITY);
  for (int r = l->run_of[to - 1]; r >= l->run_of[from]; r--) {
    int begin = from > l->first_layer[r] ? from : l->first_layer[r];
    int end = l->first_layer[r] + l->problem->runs[r].calls;
    int entered = l->entered[r * F + form];
    count_run(l, room, r, (end < to ? end : to) - begin, entered, form, out->count);
    out->entry[l->stage * l->problem->run_count + r] = entered;
    form = l->left[r * F + entered];
  }
}
