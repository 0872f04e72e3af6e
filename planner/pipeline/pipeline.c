#include "planner/pipeline/pipeline.h"
#include "planner/pipeline/construct.h"
#include "planner/pipeline/core.h"
#include "planner/pipeline/label.h"
#include "planner/pipeline/measure.h"
#include "planner/pipeline/program.h"
#include "planner/pipeline/refill.h"
#include "planner/pipeline/shift.h"
#include "planner/step/path.h"
#include <math.h>

enum {
  // A solver's tolerances let rows exceed their bounds a little: a solution over the cap is solved
  // again with as much less room.
  CAP_ROUNDS = 6,
  COLUMN_LIMIT = 400, // of integer programs that are still tried
  EXACT_LIMIT = 180,  // of those that are solved to the last digit
  PATH_ROUNDS = 24,
  FEW_FACTOR = 4,       // micro-batches to a stage, below which boundaries are moved
  PATH_CELLS = 1 << 18, // stages times micro-batches, for paths to be looked for
};
// By how much solutions of larger programs must be better than what was constructed.
#define WORTH_WHILE 1e-3
#define ROUGHLY 1e-2   // the same for rough problems of any size
#define PROVEN 1e-7    // by how much those of others must be
#define TOLERANCE 1e-5 // solvers take numbers for integers that are so close

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
  bd_stage_seconds stages[BD_MAX_STAGES];
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
    bd_pipeline_stage_seconds(problem, next.count, next.entry, stages);
    bd_step_find_path(ctx, problem->schedule, problem->stages, problem->micro_batches, stages,
                      &paths[limits.path_count++]);
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

// Whether a step may be much longer than its slowest stage tells. Programs know nothing of skips.
static bool is_order_uneven(const bd_pipeline_problem *problem) {
  return !problem->rough && !problem->skip_count && problem->stages > 1 &&
         problem->micro_batches < FEW_FACTOR * problem->stages;
}

bd_status bd_pipeline_solve(bd_ctx *ctx, const bd_pipeline_problem *problem, double limit_seconds,
                            double cutoff, bd_pipeline *out) {
  bool constructed = construct(ctx, problem, out);
  if (!constructed && !begin_leanest(ctx, problem, out)) {
    *out = (bd_pipeline){.optimal = true, .seconds = INFINITY, .bound = INFINITY};
    return BD_OK;
  }
  if (constructed && is_order_uneven(problem)) bd_pipeline_shift(ctx, problem, out);
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
