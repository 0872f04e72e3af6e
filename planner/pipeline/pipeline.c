#include "planner/pipeline/pipeline.h"
#include "planner/pipeline/construct.h"
#include "planner/pipeline/core.h"
#include "planner/pipeline/label.h"
#include "planner/pipeline/program.h"
#include "planner/pipeline/refill.h"
#include "planner/pipeline/skip.h"
#include "planner/step/path.h"
#include <math.h>
#include <string.h>

enum {
  // A solver's tolerances let rows exceed their bounds a little: a solution over the cap is solved
  // again with as much less room.
  CAP_ROUNDS = 6,
  COLUMN_LIMIT = 400, // of integer programs that are still tried
  EXACT_LIMIT = 180,  // of those that are solved to the last digit
  PATH_ROUNDS = 24,
  PATH_CELLS = 1 << 18, // stages times micro-batches, for paths to be looked for
};
// By how much solutions of larger programs must be better than what was constructed.
#define WORTH_WHILE 1e-3
#define ROUGHLY 1e-2   // the same for rough problems of any size
#define PROVEN 1e-7    // by how much those of others must be
#define TOLERANCE 1e-5 // solvers take numbers for integers that are so close

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

int bd_pipeline_hand_at(const bd_pipeline_problem *problem, int stage, int from, int to) {
  int link = problem->link ? problem->link[stage] : 0;
  return (link * problem->form_count + from) * problem->form_count + to;
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

// The gradient that comes back, as it comes and as it is wanted, and the message. The value itself
// is not held for every micro-batch in flight, as no layer of the stage reads it again.
double bd_pipeline_send_bytes(const bd_pipeline_problem *problem, int stage, int run, int from,
                              int to) {
  const double *handed = problem->runs[run].handed_bytes;
  return handed[to] + (from == to ? 0 : handed[from]) + (problem->sends_held ? handed[from] : 0) -
         (in_flight(problem, stage) - 1) * handed[from];
}

// The value as it is wanted, for every micro-batch in flight, and as it comes; and the message.
double bd_pipeline_receive_bytes(const bd_pipeline_problem *problem, int stage, int run, int from,
                                 int to) {
  const double *handed = problem->runs[run].handed_bytes;
  return in_flight(problem, stage) * handed[to] + (from == to ? 0 : handed[from]) +
         (problem->sends_held ? handed[to] : 0);
}

double bd_pipeline_least_sent_bytes(const bd_pipeline_problem *problem, int stage) {
  double least = 0;
  for (int r = 0; r < problem->run_count && stage + 1 < problem->stages; r++)
    for (int f = 0; f < problem->form_count; f++)
      for (int g = 0; g < problem->form_count; g++)
        least = fmin(least, bd_pipeline_send_bytes(problem, stage, r, f, g));
  return least;
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

double bd_pipeline_beside_bytes(const bd_pipeline_problem *problem, int stage) {
  return problem->beside_bytes ? problem->beside_bytes[stage] : 0;
}

double bd_pipeline_sum(bd_both_ways seconds) {
  return seconds.forward + seconds.backward;
}

double bd_pipeline_layer_seconds(const bd_layer_candidate *c) {
  return c->forward_seconds + c->backward_seconds;
}

int bd_pipeline_exit_form(const bd_pipeline_problem *problem, const int *count, int stage, int run,
                          int entry) {
  for (int k = 0; k < problem->runs[run].candidate_count; k++) {
    int form = problem->runs[run].candidates[k].form;
    if (form != entry && count[bd_pipeline_index(problem, stage, run, k)]) return form;
  }
  return entry;
}

typedef struct stage_sums {
  bd_both_ways seconds;
  double sync, apply, bytes;
} stage_sums;

static void add_seconds(stage_sums *sums, bd_both_ways seconds) {
  sums->seconds.forward += seconds.forward;
  sums->seconds.backward += seconds.backward;
}

static void add_layers(const bd_pipeline_problem *problem, const int *count, int stage,
                       stage_sums *out) {
  double workspace = 0;
  for (int r = 0; r < problem->run_count; r++)
    for (int k = 0; k < problem->runs[r].candidate_count; k++) {
      const bd_layer_candidate *c = &problem->runs[r].candidates[k];
      int n = count[bd_pipeline_index(problem, stage, r, k)];
      if (!n) continue;
      add_seconds(out, (bd_both_ways){n * c->forward_seconds, n * c->backward_seconds});
      out->sync += n * c->sync_seconds[problem->zero];
      out->apply += n * c->apply_seconds[problem->zero];
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
  if (from_stage == to_stage) {
    add_seconds(&sums[to_stage], own->change[from * problem->form_count + to]);
    sums[to_stage].bytes += bd_pipeline_change_bytes(problem, to_stage, run, from, to);
    return;
  }
  int at = bd_pipeline_hand_at(problem, from_stage, from, to);
  add_seconds(&sums[from_stage], own->send[at]);
  sums[from_stage].bytes += bd_pipeline_send_bytes(problem, from_stage, run, from, to);
  add_seconds(&sums[to_stage], own->receive[at]);
  sums[to_stage].bytes += bd_pipeline_receive_bytes(problem, to_stage, run, from, to);
}

static void add_skips(const bd_pipeline_problem *problem, const int *count, const int *entry,
                      stage_sums *sums) {
  for (int i = 0; i < problem->skip_count; i++) {
    const bd_pipeline_skip *skip = &problem->skips[i];
    bd_layer_place from = bd_pipeline_place(problem, count, entry, skip->from);
    bd_layer_place to = bd_pipeline_place(problem, count, entry, skip->to);
    bool there = false;
    for (int n = 0; n < i; n++)
      there = there ||
              (bd_skip_same_value(&problem->skips[n], skip) &&
               bd_pipeline_place(problem, count, entry, problem->skips[n].to).stage == to.stage);
    if (skip->next_too)
      there = there || bd_pipeline_place(problem, count, entry, skip->from + 1).stage == to.stage;
    bd_skip_cost cost = bd_pipeline_skip_cost(problem, skip, from, to, there);
    add_seconds(&sums[from.stage], cost.maker);
    add_seconds(&sums[to.stage], cost.reader);
    sums[from.stage].bytes += cost.maker_bytes;
    sums[to.stage].bytes += cost.reader_bytes;
  }
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
      int last = bd_pipeline_exit_form(problem, count, s, r, first);
      if (last != first) add_change(problem, r, s, s, first, last, sums);
      form = last;
      before = r;
      before_stage = s;
    }
    if (first_run >= 0) sums[s].bytes += bd_pipeline_shared_bytes(problem, first_run, last_run);
    sums[s].bytes += bd_pipeline_beside_bytes(problem, s);
  }
  add_skips(problem, count, entry, sums);
}

void bd_pipeline_stage_bytes(const bd_pipeline_problem *problem, const int *count, const int *entry,
                             double *out) {
  stage_sums sums[BD_MAX_STAGES];
  add_up(problem, count, entry, sums);
  for (int s = 0; s < problem->stages; s++)
    out[s] = sums[s].bytes;
}

double bd_pipeline_bytes(const bd_pipeline_problem *problem, const int *count, const int *entry) {
  double bytes[BD_MAX_STAGES], most = 0;
  bd_pipeline_stage_bytes(problem, count, entry, bytes);
  for (int s = 0; s < problem->stages; s++)
    most = fmax(most, bytes[s]);
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

static void list_stages(const bd_pipeline_problem *problem, const stage_sums *sums,
                        bd_stage_seconds *out) {
  for (int s = 0; s < problem->stages; s++)
    out[s] = (bd_stage_seconds){.forward = sums[s].seconds.forward,
                                .backward = sums[s].seconds.backward,
                                .sync = sums[s].sync,
                                .apply = sums[s].apply};
}

double bd_pipeline_seconds(const bd_pipeline_problem *problem, const int *count, const int *entry) {
  stage_sums sums[BD_MAX_STAGES];
  bd_stage_seconds stages[BD_MAX_STAGES];
  add_up(problem, count, entry, sums);
  if (!keeps_cuts(problem, count)) return INFINITY;
  for (int s = 0; s < problem->stages; s++)
    if (is_empty(problem, count, s) || sums[s].bytes > (double)problem->cap_bytes) return INFINITY;
  list_stages(problem, sums, stages);
  return bd_step_emitted_seconds(problem->schedule, problem->stages, problem->micro_batches,
                                 stages);
}

static void find_path(bd_ctx *ctx, const bd_pipeline_problem *problem, const bd_pipeline *pipeline,
                      bd_step_path *out) {
  stage_sums sums[BD_MAX_STAGES];
  bd_stage_seconds stages[BD_MAX_STAGES];
  add_up(problem, pipeline->count, pipeline->entry, sums);
  list_stages(problem, sums, stages);
  bd_step_find_path(ctx, problem->schedule, problem->stages, problem->micro_batches, stages, out);
}

// Placements are aligned, so that no sum of bytes lies near this cap.
static double room_of(const bd_pipeline_problem *problem) {
  return (double)(problem->cap_bytes / BD_ALIGNMENT * BD_ALIGNMENT) + BD_ALIGNMENT / 2.0;
}

static bd_pipeline_problem without_skips(const bd_pipeline_problem *problem) {
  bd_pipeline_problem plain = *problem;
  plain.skip_count = 0;
  return plain;
}

// Begins with the leanest pipeline instead, where that has room. False where it exceeds the cap, as
// all others do then.
static bool begin_leanest(bd_ctx *ctx, const bd_pipeline_problem *problem, bd_pipeline *out) {
  bd_pipeline leanest;
  bd_pipeline_problem plain = without_skips(problem);
  bd_pipeline_leanest(ctx, &plain, &leanest);
  if (!leanest.feasible || leanest.bytes > problem->cap_bytes) return false;
  if (problem->skip_count) bd_pipeline_leanest(ctx, problem, &leanest);
  if (isinf(leanest.seconds)) return !leanest.optimal;
  leanest.bound = out->bound;
  leanest.optimal = false;
  *out = leanest;
  bd_pipeline_refill(ctx, problem, out);
  return true;
}

static bool construct(bd_ctx *ctx, const bd_pipeline_problem *problem, bd_pipeline *out) {
  bd_pipeline_construct(ctx, problem, out);
  bd_pipeline_refill(ctx, problem, out);
  return out->feasible;
}

void bd_pipeline_estimate(bd_ctx *ctx, const bd_pipeline_problem *problem, bd_pipeline *out) {
  if (!construct(ctx, problem, out)) begin_leanest(ctx, problem, out);
}

// The program knows some paths through a step; where its solution takes longer by another one, it
// is solved again with that one as well, until none is missing (Benders, Numerische Mathematik
// 1962). Its solutions are bounds throughout. `out` is replaced by what takes less than the
// cutoff and is faster than it by such a part at least; its bound is set in any case.
static bd_status solve_program(bd_ctx *ctx, const bd_pipeline_problem *problem,
                               double limit_seconds, double cutoff, double better_by,
                               bd_pipeline *out) {
  double slack = 1e-7, bound = -INFINITY;
  bd_step_path paths[PATH_ROUNDS];
  bd_pipeline_limits limits = {room_of(problem), limit_seconds, 0, 0, paths};
  for (int over_cap = 0; over_cap < CAP_ROUNDS;) {
    bd_pipeline next;
    limits.cutoff = fmin(cutoff, out->seconds * (1 - better_by));
    BD_TRY(bd_pipeline_program_solve(ctx, problem, &limits, &next));
    out->optimal = next.optimal;
    bound = fmax(bound, next.bound);
    double over = next.count ? (double)(next.bytes - problem->cap_bytes) : 0;
    if (over > 0) {
      limits.cap_bytes -= over + slack * limits.cap_bytes;
      slack *= 4;
      over_cap++;
      continue;
    }
    if (next.count && next.seconds < fmin(cutoff, out->seconds)) *out = next;
    if (!next.count || !next.optimal ||
        next.seconds <= next.bound * (1 + fmax(better_by, TOLERANCE)))
      break;
    out->optimal = false;
    if (limits.path_count == PATH_ROUNDS || problem->stages > PATH_CELLS / problem->micro_batches)
      break;
    find_path(ctx, problem, &next, &paths[limits.path_count++]);
  }
  out->bound = fmin(bound, out->seconds);
  return BD_OK;
}

// Looks for something faster among the candidates that are likely to be used, where the whole
// program was not solved to the last digit.
static bd_status solve_core(bd_ctx *ctx, const bd_pipeline_problem *problem, double limit_seconds,
                            double cutoff, const double *price, bd_pipeline *out) {
  bd_pipeline_core core;
  bd_pipeline better = {.seconds = out->seconds};
  if (problem->rough || !bd_pipeline_find_core(ctx, problem, out, price, EXACT_LIMIT, &core))
    return BD_OK;
  BD_TRY(solve_program(ctx, &core.problem, limit_seconds, cutoff, PROVEN, &better));
  if (!better.count) return BD_OK;
  bd_pipeline_leave_core(ctx, problem, &core, &better);
  better.optimal = false;
  better.bound = fmin(out->bound, better.seconds);
  *out = better;
  return BD_OK;
}

// Programs know nothing of skips: what is best without them is measured with them.
static bd_status solve_without_skips(bd_ctx *ctx, const bd_pipeline_problem *problem,
                                     double limit_seconds, double cutoff, bd_pipeline *out) {
  bd_pipeline_problem plain = without_skips(problem);
  bd_pipeline best = {.seconds = fmin(cutoff, out->seconds)};
  BD_TRY(solve_program(ctx, &plain, limit_seconds, cutoff, PROVEN, &best));
  if (!best.count) return BD_OK;
  best.seconds = bd_pipeline_seconds(problem, best.count, best.entry);
  best.bytes = (int64_t)bd_pipeline_bytes(problem, best.count, best.entry);
  best.optimal = false;
  if (best.seconds < fmin(cutoff, out->seconds)) *out = best;
  return BD_OK;
}

bd_status bd_pipeline_solve(bd_ctx *ctx, const bd_pipeline_problem *problem, double limit_seconds,
                            double cutoff, bd_pipeline *out) {
  bool constructed = construct(ctx, problem, out);
  if (!constructed && !begin_leanest(ctx, problem, out)) {
    *out = (bd_pipeline){.optimal = true, .seconds = INFINITY, .bound = INFINITY};
    return BD_OK;
  }
  const double *price = out->price;
  if (out->seconds >= cutoff) *out = (bd_pipeline){.seconds = INFINITY, .bound = -INFINITY};
  if (problem->rough && constructed) return BD_OK;
  int columns = bd_pipeline_program_columns(problem);
  if (columns > EXACT_LIMIT || problem->skip_count)
    bd_pipeline_label(ctx, problem, cutoff, price, out);
  if (problem->skip_count)
    return columns > EXACT_LIMIT ? BD_OK
                                 : solve_without_skips(ctx, problem, limit_seconds, cutoff, out);
  double worth = problem->rough ? ROUGHLY : WORTH_WHILE;
  double better_by = columns > EXACT_LIMIT || problem->rough ? worth : PROVEN;
  if (columns <= COLUMN_LIMIT)
    BD_TRY(solve_program(ctx, problem, limit_seconds, cutoff, better_by, out));
  return solve_core(ctx, problem, limit_seconds, cutoff, price, out);
}
