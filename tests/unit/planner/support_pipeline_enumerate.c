#include "tests/unit/planner/support_pipeline.h"
#include <math.h>

static bool every_stage_works(const bd_pipeline_problem *p, const int *count) {
  int width = bd_pipeline_candidates(p);
  for (int s = 0; s < p->stages; s++) {
    int layers = 0;
    for (int i = 0; i < width; i++)
      layers += count[s * width + i];
    if (!layers) return false;
  }
  return true;
}

static bool keeps_cuts(const bd_pipeline_problem *p, const int *count) {
  int width = bd_pipeline_candidates(p), before = 0;
  for (int s = 0; p->cut_least && s < p->stages; s++) {
    for (int i = 0; i < width; i++)
      before += count[s * width + i];
    if (before < p->cut_least[s] || before > p->cut_most[s]) return false;
  }
  return true;
}

enum { COUNTS = MOST_STAGES * MOST_RUNS * MOST_CANDIDATES, CELLS = MOST_STAGES * MOST_RUNS };

typedef struct enumeration {
  const bd_pipeline_problem *problem;
  int count[COUNTS], entry[CELLS];
  pipeline_best best;
} enumeration;

static bool has_form(const enumeration *e, int cell, int form) {
  const bd_pipeline_problem *p = e->problem;
  int s = cell / p->run_count, r = cell % p->run_count;
  for (int k = 0; k < p->runs[r].candidate_count; k++)
    if (p->runs[r].candidates[k].form == form && e->count[bd_pipeline_index(p, s, r, k)])
      return true;
  return false;
}

// Every order of the forms that share a stage and a run.
static void enumerate_entries(enumeration *e, int cell) {
  const bd_pipeline_problem *p = e->problem;
  if (cell == p->stages * p->run_count) {
    double bytes = peak_bytes(p, e->count, e->entry);
    e->best.leanest_bytes = fmin(e->best.leanest_bytes, bytes);
    if (bytes <= (double)p->cap_bytes)
      e->best.fastest_seconds = fmin(e->best.fastest_seconds, step_seconds(p, e->count, e->entry));
    return;
  }
  bool any = false;
  for (int form = 0; form < p->form_count; form++) {
    if (!has_form(e, cell, form)) continue;
    any = true;
    e->entry[cell] = form;
    enumerate_entries(e, cell + 1);
  }
  if (any) return;
  e->entry[cell] = -1;
  enumerate_entries(e, cell + 1);
}

// Gives `left` calls of run `r`, from candidate `k` on, to stage `s` and those after it.
static void enumerate(enumeration *e, int r, int k, int s, int left) {
  const bd_pipeline_problem *p = e->problem;
  if (r == p->run_count) {
    if (!every_stage_works(p, e->count) || !keeps_cuts(p, e->count)) return;
    enumerate_entries(e, 0);
    return;
  }
  if (k < p->runs[r].candidate_count) {
    int *cell = &e->count[bd_pipeline_index(p, s, r, k)];
    for (*cell = 0; *cell <= left; ++*cell)
      enumerate(e, r, k + 1, s, left - *cell);
    *cell = 0;
    return;
  }
  if (left == 0) enumerate(e, r + 1, 0, s, r + 1 < p->run_count ? p->runs[r + 1].calls : 0);
  if (left > 0 && s + 1 < p->stages) enumerate(e, r, 0, s + 1, left);
  // A run that ends with its stage lets the next begin on the next one: the next run gives this
  // stage nothing and moves on.
}

pipeline_best enumerate_pipelines(const bd_pipeline_problem *p) {
  enumeration e = {.problem = p, .best = {INFINITY, INFINITY}};
  enumerate(&e, 0, 0, 0, p->runs[0].calls);
  return e.best;
}
