#include "planner/pipeline/core.h"
#include "planner/pipeline/program.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// A candidate of the whole problem, over all runs, and how much slower all layers of its run are
// with it than with the best.
typedef struct ranked {
  int index;
  double slower;
} ranked;

static int compare_ranked(const void *a, const void *b) {
  const ranked *x = a, *y = b;
  if (x->slower != y->slower) return x->slower < y->slower ? -1 : 1;
  return x->index - y->index;
}

static double value_of(const bd_pipeline_problem *problem, int stage, double price,
                       const bd_layer_candidate *c) {
  int passes = problem->micro_batches + problem->stages - 1;
  return bd_pipeline_layer_seconds(c) + c->sync_seconds[problem->zero] / passes +
         price * bd_pipeline_layer_bytes(problem, stage, c);
}

// On the stage where it does best.
static void rank_run(const bd_pipeline_problem *problem, const bd_pipeline *known,
                     const double *price, int run, ranked *out) {
  const bd_pipeline_run *own = &problem->runs[run];
  for (int k = 0; k < own->candidate_count; k++)
    out[k] = (ranked){bd_pipeline_index(problem, 0, run, k), INFINITY};
  for (int s = 0; s < problem->stages; s++) {
    double worth = price ? price[s] : 0, best = INFINITY;
    for (int k = 0; k < own->candidate_count; k++)
      best = fmin(best, value_of(problem, s, worth, &own->candidates[k]));
    for (int k = 0; k < own->candidate_count; k++)
      out[k].slower = fmin(out[k].slower,
                           own->calls * (value_of(problem, s, worth, &own->candidates[k]) - best));
  }
  for (int k = 0; k < own->candidate_count; k++)
    for (int s = 0; known->count && s < problem->stages; s++)
      if (known->count[bd_pipeline_index(problem, s, run, k)]) out[k].slower = -1;
}

// The problem with the candidates that are wanted.
static void narrow(bd_ctx *ctx, const bd_pipeline_problem *problem, const bool *wanted,
                   bd_pipeline_core *out) {
  bd_pipeline_run *runs =
      bd_arena_copy(ctx->arena, problem->runs, problem->run_count, sizeof *problem->runs);
  int count = 0;
  for (int r = 0; r < problem->run_count; r++) {
    bd_layer_candidate *list =
        BD_NEW_ARRAY(ctx->arena, bd_layer_candidate, runs[r].candidate_count);
    int kept = 0;
    for (int k = 0; k < runs[r].candidate_count; k++) {
      int index = bd_pipeline_index(problem, 0, r, k);
      if (!wanted[index]) continue;
      out->index[count++] = index;
      list[kept++] = runs[r].candidates[k];
    }
    runs[r].candidates = list;
    runs[r].candidate_count = kept;
  }
  out->problem = *problem;
  out->problem.runs = runs;
}

// The core of the first `taken` candidates by their rank. Returns its columns.
static int take_first(bd_ctx *ctx, const bd_pipeline_problem *problem, const ranked *all, int taken,
                      bd_pipeline_core *out) {
  bool *wanted = BD_NEW_ARRAY(ctx->arena, bool, bd_pipeline_candidates(problem));
  for (int i = 0; i < taken; i++)
    wanted[all[i].index] = true;
  out->index = BD_NEW_ARRAY(ctx->arena, int, taken);
  narrow(ctx, problem, wanted, out);
  return bd_pipeline_program_columns(&out->problem);
}

// The more are taken the more columns there are, and all candidates have too many.
bool bd_pipeline_find_core(bd_ctx *ctx, const bd_pipeline_problem *problem,
                           const bd_pipeline *known, const double *price, int columns,
                           bd_pipeline_core *out) {
  if (bd_pipeline_program_columns(problem) <= columns) return false;
  int count = bd_pipeline_candidates(problem), low = 0, high = count;
  ranked *all = BD_NEW_ARRAY(ctx->arena, ranked, count);
  for (int r = 0; r < problem->run_count; r++)
    rank_run(problem, known, price, r, &all[bd_pipeline_index(problem, 0, r, 0)]);
  qsort(all, (size_t)count, sizeof *all, compare_ranked);
  while (low < count && all[low].slower <= 0)
    low++;
  if (take_first(ctx, problem, all, low, out) > columns) return false;
  while (low + 1 < high) {
    bd_pipeline_core wider;
    int middle = low + (high - low) / 2;
    bool small = take_first(ctx, problem, all, middle, &wider) <= columns;
    if (small) *out = wider;
    *(small ? &low : &high) = middle;
  }
  return true;
}

void bd_pipeline_leave_core(bd_ctx *ctx, const bd_pipeline_problem *problem,
                            const bd_pipeline_core *core, bd_pipeline *pipeline) {
  int cells = bd_pipeline_candidates(problem), own = bd_pipeline_candidates(&core->problem);
  int *count = BD_NEW_ARRAY(ctx->arena, int, problem->stages *cells);
  for (int s = 0; s < problem->stages; s++)
    for (int k = 0; k < own; k++)
      count[s * cells + core->index[k]] = pipeline->count[s * own + k];
  pipeline->count = count;
}
