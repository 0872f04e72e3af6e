#include "planner/pipeline.h"
#include "planner/pipeline_construct.h"
#include "planner/pipeline_program.h"
#include <math.h>
#include <string.h>

enum {
  // A solver's tolerances let rows exceed their bounds a little: a solution over the cap is solved
  // again with as much less room.
  CAP_ROUNDS = 6,
  COLUMN_LIMIT = 400, // of integer programs that are still tried
};

int bd_pipeline_candidates(const bd_pipeline_problem *problem) {
  int total = 0;
  for (int r = 0; r < problem->run_count; r++)
    total += problem->runs[r].candidate_count;
  return total;
}

int bd_pipeline_index(const bd_pipeline_problem *problem, int stage, int run, int candidate) {
  int index = stage * bd_pipeline_candidates(problem) + candidate;
  for (int r = 0; r < run; r++)
    index += problem->runs[r].candidate_count;
  return index;
}

static int in_flight(const bd_pipeline_problem *problem, int stage) {
  return bd_schedule_in_flight(problem->schedule, stage, problem->stages, problem->micro_batches);
}

double bd_pipeline_layer_bytes(const bd_pipeline_problem *problem, int stage,
                               const bd_layer_candidate *c) {
  return (double)(c->weight_bytes + c->gradient_bytes + c->optimizer_bytes[problem->zero]) +
         (double)in_flight(problem, stage) * (double)(c->tape_bytes + c->boundary_bytes);
}

double bd_pipeline_layer_seconds(const bd_layer_candidate *c) {
  return c->forward_seconds + c->backward_seconds;
}

// The form after the entry form where a run changes it within a stage, else the entry form.
static int exit_form(const bd_pipeline_problem *problem, const int *count, int stage, int run,
                     int entry) {
  for (int k = 0; k < problem->runs[run].candidate_count; k++) {
    int form = problem->runs[run].candidates[k].form;
    if (form != entry && count[bd_pipeline_index(problem, stage, run, k)]) return form;
  }
  return entry;
}

// Seconds of the stages, what passes between layers included.
static void time_stages(const bd_pipeline_problem *problem, const int *count, const int *entry,
                        double *seconds, double *sync) {
  int form = -1, before_stage = 0, F = problem->form_count;
  const bd_pipeline_run *before = NULL;
  for (int s = 0; s < problem->stages; s++) {
    seconds[s] = sync[s] = 0;
    for (int r = 0; r < problem->run_count; r++) {
      const bd_pipeline_run *run = &problem->runs[r];
      int first = entry[s * problem->run_count + r];
      if (first < 0) continue;
      for (int k = 0; k < run->candidate_count; k++) {
        int n = count[bd_pipeline_index(problem, s, r, k)];
        if (n) seconds[s] += n * bd_pipeline_layer_seconds(&run->candidates[k]);
        if (n) sync[s] += n * run->candidates[k].sync_seconds;
      }
      if (before && before_stage == s) seconds[s] += before->change[form * F + first];
      if (before && before_stage < s) {
        seconds[before_stage] += before->send[form * F + first];
        seconds[s] += before->receive[form * F + first];
      }
      int last = exit_form(problem, count, s, r, first);
      if (last != first) seconds[s] += run->change[first * F + last];
      form = last;
      before = run;
      before_stage = s;
    }
  }
}

static double stage_bytes(const bd_pipeline_problem *problem, const int *count, int stage) {
  double bytes = 0, workspace = 0;
  for (int r = 0; r < problem->run_count; r++)
    for (int k = 0; k < problem->runs[r].candidate_count; k++) {
      const bd_layer_candidate *c = &problem->runs[r].candidates[k];
      int n = count[bd_pipeline_index(problem, stage, r, k)];
      bytes += n * bd_pipeline_layer_bytes(problem, stage, c);
      if (n) workspace = fmax(workspace, (double)c->workspace_bytes);
    }
  return bytes + workspace;
}

double bd_pipeline_bytes(const bd_pipeline_problem *problem, const int *count) {
  double most = 0;
  for (int s = 0; s < problem->stages; s++)
    most = fmax(most, stage_bytes(problem, count, s));
  return most;
}

static bool is_empty(const bd_pipeline_problem *problem, const int *count, int stage) {
  int width = bd_pipeline_candidates(problem);
  for (int i = 0; i < width; i++)
    if (count[stage * width + i]) return false;
  return true;
}

// Whether as many layers as are wanted run on the stages up to each.
static bool keeps_cuts(const bd_pipeline_problem *problem, const int *count) {
  int width = bd_pipeline_candidates(problem), layers = 0;
  for (int s = 0; problem->cut_least && s < problem->stages; s++) {
    for (int k = 0; k < width; k++)
      layers += count[s * width + k];
    if (layers < problem->cut_least[s] || layers > problem->cut_most[s]) return false;
  }
  return true;
}

double bd_pipeline_seconds(const bd_pipeline_problem *problem, const int *count, const int *entry) {
  double seconds[BD_MAX_STAGES], sync[BD_MAX_STAGES], sum = 0, slowest = 0, longest = 0;
  time_stages(problem, count, entry, seconds, sync);
  if (!keeps_cuts(problem, count)) return INFINITY;
  for (int s = 0; s < problem->stages; s++) {
    if (is_empty(problem, count, s) || stage_bytes(problem, count, s) > (double)problem->cap_bytes)
      return INFINITY;
    sum += seconds[s];
    slowest = fmax(slowest, seconds[s]);
    longest = fmax(longest, sync[s]);
  }
  return sum + (problem->micro_batches - 1) * slowest + longest;
}

// Placements are aligned, so that no sum of bytes lies near this cap.
static double room_of(const bd_pipeline_problem *problem) {
  return (double)(problem->cap_bytes / BD_ALIGNMENT * BD_ALIGNMENT) + BD_ALIGNMENT / 2.0;
}

bd_status bd_pipeline_solve(bd_ctx *ctx, const bd_pipeline_problem *problem, double limit_seconds,
                            double cutoff, bd_pipeline *out) {
  bd_pipeline_construct(ctx, problem, false, out);
  if (out->seconds >= cutoff) *out = (bd_pipeline){.seconds = INFINITY, .bound = -INFINITY};
  if (bd_pipeline_program_columns(problem) > COLUMN_LIMIT) return BD_OK;
  double room = room_of(problem), slack = 1e-7;
  for (int round = 0; round < CAP_ROUNDS; round++) {
    bd_pipeline better;
    BD_TRY(bd_pipeline_program_solve(ctx, problem, false, room, limit_seconds,
                                     fmin(cutoff, out->seconds * (1 - 1e-7)), &better));
    out->optimal = better.optimal;
    out->bound = fmin(better.bound, out->seconds);
    if (!better.count) break;
    double over = (double)(better.bytes - problem->cap_bytes);
    if (over <= 0) {
      *out = better;
      break;
    }
    room -= over + slack * room;
    slack *= 4;
  }
  return BD_OK;
}

bd_status bd_pipeline_leanest(bd_ctx *ctx, const bd_pipeline_problem *problem, double limit_seconds,
                              bd_pipeline *out) {
  bd_pipeline_construct(ctx, problem, true, out);
  if (bd_pipeline_program_columns(problem) > COLUMN_LIMIT) return BD_OK;
  bd_pipeline better;
  BD_TRY(bd_pipeline_program_solve(ctx, problem, true, 0, limit_seconds, INFINITY, &better));
  if (better.count && (!out->count || better.bytes < out->bytes)) *out = better;
  return BD_OK;
}
