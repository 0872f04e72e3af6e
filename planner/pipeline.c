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
  EXACT_LIMIT = 180,  // of those that are solved to the last digit
};
// By how much solutions of larger programs must be better than what was constructed.
#define WORTH_WHILE 1e-3

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
  return (double)(c->weight_bytes + c->gradient_bytes + c->passing_bytes +
                  c->optimizer_bytes[problem->zero]) +
         (double)in_flight(problem, stage) * (double)(c->tape_bytes + c->boundary_bytes);
}

// The value in its new form, for every micro-batch in flight, and its gradient in the old one.
double bd_pipeline_change_bytes(const bd_pipeline_problem *problem, int stage, int run, int from,
                                int to) {
  const double *handed = problem->runs[run].handed_bytes;
  return from == to ? 0 : in_flight(problem, stage) * handed[to] + handed[from];
}

// The gradient that comes back, as it comes and as it is wanted, and the message.
double bd_pipeline_send_bytes(const bd_pipeline_problem *problem, int run, int from, int to) {
  const double *handed = problem->runs[run].handed_bytes;
  return handed[to] + (from == to ? 0 : handed[from]) + (problem->sends_held ? handed[from] : 0);
}

// The value as it is wanted, for every micro-batch in flight, and as it comes; and the message.
double bd_pipeline_receive_bytes(const bd_pipeline_problem *problem, int stage, int run, int from,
                                 int to) {
  const double *handed = problem->runs[run].handed_bytes;
  return in_flight(problem, stage) * handed[to] + (from == to ? 0 : handed[from]) +
         (problem->sends_held ? handed[to] : 0);
}

double bd_pipeline_shared_bytes(const bd_pipeline_problem *problem, int first, int last) {
  double bytes = 0;
  for (int w = 0; w < problem->shared_count; w++) {
    int r = first;
    while (r <= last && !problem->shared[w].used[r])
      r++;
    if (r <= last) bytes += problem->shared[w].bytes;
  }
  return bytes;
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

typedef struct stage_sums {
  double seconds, sync, bytes;
} stage_sums;

static void add_layers(const bd_pipeline_problem *problem, const int *count, int stage,
                       stage_sums *out) {
  double workspace = 0;
  for (int r = 0; r < problem->run_count; r++)
    for (int k = 0; k < problem->runs[r].candidate_count; k++) {
      const bd_layer_candidate *c = &problem->runs[r].candidates[k];
      int n = count[bd_pipeline_index(problem, stage, r, k)];
      if (!n) continue;
      out->seconds += n * bd_pipeline_layer_seconds(c);
      out->sync += n * c->sync_seconds;
      out->bytes += n * bd_pipeline_layer_bytes(problem, stage, c);
      workspace = fmax(workspace, (double)c->workspace_bytes);
    }
  out->bytes += workspace;
}

// What it takes that layers of `run` on stage `from_stage` hand on in form `from` what others on
// stage `to_stage` take in form `to`.
static void add_change(const bd_pipeline_problem *problem, int run, int from_stage, int to_stage,
                       int from, int to, stage_sums *sums) {
  const bd_pipeline_run *own = &problem->runs[run];
  int at = from * problem->form_count + to;
  if (from_stage == to_stage) {
    sums[to_stage].seconds += own->change[at];
    sums[to_stage].bytes += bd_pipeline_change_bytes(problem, to_stage, run, from, to);
    return;
  }
  sums[from_stage].seconds += own->send[at];
  sums[from_stage].bytes += bd_pipeline_send_bytes(problem, run, from, to);
  sums[to_stage].seconds += own->receive[at];
  sums[to_stage].bytes += bd_pipeline_receive_bytes(problem, to_stage, run, from, to);
}

// Sums over the stages, what passes between layers included.
static void add_up(const bd_pipeline_problem *problem, const int *count, const int *entry,
                   stage_sums *sums) {
  int form = -1, before_stage = 0, before = -1;
  memset(sums, 0, sizeof *sums * (size_t)problem->stages);
  for (int s = 0; s < problem->stages; s++) {
    add_layers(problem, count, s, &sums[s]);
    int first_run = -1, last_run = -1;
    for (int r = 0; r < problem->run_count; r++) {
      int first = entry[s * problem->run_count + r];
      if (first < 0) continue;
      if (first_run < 0) first_run = r;
      last_run = r;
      if (before >= 0) add_change(problem, before, before_stage, s, form, first, sums);
      int last = exit_form(problem, count, s, r, first);
      if (last != first) add_change(problem, r, s, s, first, last, sums);
      form = last;
      before = r;
      before_stage = s;
    }
    if (first_run >= 0) sums[s].bytes += bd_pipeline_shared_bytes(problem, first_run, last_run);
  }
}

double bd_pipeline_bytes(const bd_pipeline_problem *problem, const int *count, const int *entry) {
  stage_sums sums[BD_MAX_STAGES];
  double most = 0;
  add_up(problem, count, entry, sums);
  for (int s = 0; s < problem->stages; s++)
    most = fmax(most, sums[s].bytes);
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
  stage_sums sums[BD_MAX_STAGES];
  double sum = 0, slowest = 0, longest = 0;
  add_up(problem, count, entry, sums);
  if (!keeps_cuts(problem, count)) return INFINITY;
  for (int s = 0; s < problem->stages; s++) {
    if (is_empty(problem, count, s) || sums[s].bytes > (double)problem->cap_bytes) return INFINITY;
    sum += sums[s].seconds;
    slowest = fmax(slowest, sums[s].seconds);
    longest = fmax(longest, sums[s].sync);
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
  int columns = bd_pipeline_program_columns(problem);
  if (columns > COLUMN_LIMIT) return BD_OK;
  double room = room_of(problem), slack = 1e-7,
         better_by = columns > EXACT_LIMIT ? WORTH_WHILE : 1e-7;
  for (int round = 0; round < CAP_ROUNDS; round++) {
    bd_pipeline better;
    BD_TRY(bd_pipeline_program_solve(ctx, problem, false, room, limit_seconds,
                                     fmin(cutoff, out->seconds * (1 - better_by)), &better));
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
