#include "planner/pipeline.h"
#include <math.h>

// A solver's tolerances let rows exceed their bounds a little: a solution over the cap is solved
// again with as much less room.
#define CAP_ROUNDS 6

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

// Bytes of one layer on a stage, its workspace aside.
static double layer_bytes(const bd_pipeline_problem *problem, int stage,
                          const bd_layer_candidate *c) {
  return (double)(c->weight_bytes + c->gradient_bytes + c->optimizer_bytes[problem->zero]) +
         (double)in_flight(problem, stage) * (double)(c->tape_bytes + c->boundary_bytes);
}

static double layer_seconds(const bd_layer_candidate *c) {
  return c->forward_seconds + c->backward_seconds;
}

static double send_seconds(const bd_pipeline_problem *problem, int stage) {
  int neighbours = (stage > 0) + (stage + 1 < problem->stages);
  return neighbours * problem->send_seconds;
}

double bd_pipeline_seconds(const bd_pipeline_problem *problem, const int *count) {
  double sum = 0, slowest = 0, sync = 0;
  for (int s = 0; s < problem->stages; s++) {
    double seconds = send_seconds(problem, s), bytes = 0, workspace = 0, stage_sync = 0;
    int layers = 0;
    for (int r = 0; r < problem->run_count; r++)
      for (int k = 0; k < problem->runs[r].candidate_count; k++) {
        const bd_layer_candidate *c = &problem->runs[r].candidates[k];
        int n = count[bd_pipeline_index(problem, s, r, k)];
        if (!n) continue;
        layers += n;
        seconds += n * layer_seconds(c);
        bytes += n * layer_bytes(problem, s, c);
        stage_sync += n * c->sync_seconds;
        workspace = fmax(workspace, (double)c->workspace_bytes);
      }
    if (!layers || bytes + workspace > (double)problem->cap_bytes) return INFINITY;
    sum += seconds;
    slowest = fmax(slowest, seconds);
    sync = fmax(sync, stage_sync);
  }
  return sum + (problem->micro_batches - 1) * slowest + sync;
}

// Numbers enter the program as multiples of the largest layer's, since solvers' tolerances are
// absolute near 1.
typedef struct units {
  double seconds, bytes;
} units;

static units find_units(const bd_pipeline_problem *problem) {
  units out = {0, 0};
  for (int r = 0; r < problem->run_count; r++)
    for (int k = 0; k < problem->runs[r].candidate_count; k++) {
      const bd_layer_candidate *c = &problem->runs[r].candidates[k];
      out.seconds = fmax(out.seconds, layer_seconds(c));
      out.bytes = fmax(out.bytes, layer_bytes(problem, 0, c));
    }
  if (out.seconds <= 0) out.seconds = 1;
  if (out.bytes <= 0) out.bytes = 1;
  return out;
}

typedef struct columns {
  units unit;
  int *count, *used; // per (stage, run, candidate)
  int *done;         // per (stage, run): all calls of the run lie on stages up to this one
  int slowest, sync, *workspace;
  int height; // leanest: bytes of the fullest stage; else -1
} columns;

static columns add_columns(bd_ctx *ctx, const bd_pipeline_problem *problem, bool leanest,
                           bd_program *program) {
  int cells = problem->stages * bd_pipeline_candidates(problem);
  columns x = {.unit = find_units(problem),
               .count = BD_NEW_ARRAY(ctx->arena, int, cells),
               .used = BD_NEW_ARRAY(ctx->arena, int, cells),
               .done = BD_NEW_ARRAY(ctx->arena, int, problem->stages * problem->run_count),
               .workspace = BD_NEW_ARRAY(ctx->arena, int, problem->stages)};
  for (int s = 0; s < problem->stages; s++) {
    x.workspace[s] = bd_program_add_column(ctx, program, 0, 0, INFINITY, false);
    for (int r = 0; r < problem->run_count; r++) {
      const bd_pipeline_run *run = &problem->runs[r];
      x.done[s * problem->run_count + r] = bd_program_add_column(ctx, program, 0, 0, 1, true);
      for (int k = 0; k < run->candidate_count; k++) {
        int cell = bd_pipeline_index(problem, s, r, k);
        double seconds = layer_seconds(&run->candidates[k]) / x.unit.seconds;
        x.count[cell] = bd_program_add_column(ctx, program, seconds, 0, run->calls, true);
        x.used[cell] = bd_program_add_column(ctx, program, 0, 0, 1, true);
      }
    }
  }
  x.slowest = bd_program_add_column(ctx, program, problem->micro_batches - 1, 0, INFINITY, false);
  x.sync = bd_program_add_column(ctx, program, 1, 0, INFINITY, false);
  x.height = -1;
  if (!leanest) return x;
  for (int i = 0; i < program->columns; i++)
    program->cost[i] = 0;
  x.height = bd_program_add_column(ctx, program, 1, 0, INFINITY, false);
  return x;
}

// A stage's time, memory and workspace.
static void add_stage(bd_ctx *ctx, const bd_pipeline_problem *problem, double cap_bytes,
                      bd_program *program, const columns *x, int s) {
  const units *unit = &x->unit;
  int time = bd_program_add_row(ctx, program, -INFINITY, -send_seconds(problem, s) / unit->seconds);
  int sync = bd_program_add_row(ctx, program, -INFINITY, 0);
  int memory =
      bd_program_add_row(ctx, program, -INFINITY, x->height >= 0 ? 0 : cap_bytes / unit->bytes);
  if (x->height >= 0) bd_program_add_entry(ctx, program, memory, x->height, -1);
  int layers = bd_program_add_row(ctx, program, 1, INFINITY);
  bd_program_add_entry(ctx, program, time, x->slowest, -1);
  bd_program_add_entry(ctx, program, sync, x->sync, -1);
  bd_program_add_entry(ctx, program, memory, x->workspace[s], 1);
  for (int r = 0; r < problem->run_count; r++)
    for (int k = 0; k < problem->runs[r].candidate_count; k++) {
      const bd_layer_candidate *c = &problem->runs[r].candidates[k];
      int cell = bd_pipeline_index(problem, s, r, k);
      bd_program_add_entry(ctx, program, time, x->count[cell], layer_seconds(c) / unit->seconds);
      bd_program_add_entry(ctx, program, sync, x->count[cell], c->sync_seconds / unit->seconds);
      bd_program_add_entry(ctx, program, memory, x->count[cell],
                           layer_bytes(problem, s, c) / unit->bytes);
      bd_program_add_entry(ctx, program, layers, x->count[cell], 1);
      int uses = bd_program_add_row(ctx, program, -INFINITY, 0);
      bd_program_add_entry(ctx, program, uses, x->count[cell], 1);
      bd_program_add_entry(ctx, program, uses, x->used[cell], -problem->runs[r].calls);
      int holds = bd_program_add_row(ctx, program, 0, INFINITY);
      bd_program_add_entry(ctx, program, holds, x->workspace[s], 1);
      bd_program_add_entry(ctx, program, holds, x->used[cell],
                           -(double)c->workspace_bytes / unit->bytes);
    }
}

// Layers keep their order: a run starts on a stage only when the run before it ends by that stage.
static void add_order(bd_ctx *ctx, const bd_pipeline_problem *problem, bd_program *program,
                      const columns *x) {
  for (int r = 0; r < problem->run_count; r++) {
    const bd_pipeline_run *run = &problem->runs[r];
    int all = bd_program_add_row(ctx, program, run->calls, run->calls);
    for (int s = 0; s < problem->stages; s++) {
      int done = bd_program_add_row(ctx, program, 0, INFINITY);
      bd_program_add_entry(ctx, program, done, x->done[s * problem->run_count + r], -run->calls);
      for (int k = 0; k < run->candidate_count; k++)
        bd_program_add_entry(ctx, program, all, x->count[bd_pipeline_index(problem, s, r, k)], 1);
      for (int before = 0; before <= s; before++)
        for (int k = 0; k < run->candidate_count; k++)
          bd_program_add_entry(ctx, program, done,
                               x->count[bd_pipeline_index(problem, before, r, k)], 1);
      if (r + 1 == problem->run_count) continue;
      int starts = bd_program_add_row(ctx, program, -INFINITY, 0);
      bd_program_add_entry(ctx, program, starts, x->done[s * problem->run_count + r],
                           -problem->runs[r + 1].calls);
      for (int k = 0; k < problem->runs[r + 1].candidate_count; k++)
        bd_program_add_entry(ctx, program, starts,
                             x->count[bd_pipeline_index(problem, s, r + 1, k)], 1);
    }
  }
}

// Bytes that the fullest stage of an assignment holds.
static double fullest_bytes(const bd_pipeline_problem *problem, const int *count) {
  double most = 0;
  for (int s = 0; s < problem->stages; s++) {
    double bytes = 0, workspace = 0;
    for (int r = 0; r < problem->run_count; r++)
      for (int k = 0; k < problem->runs[r].candidate_count; k++) {
        int n = count[bd_pipeline_index(problem, s, r, k)];
        bytes += n * layer_bytes(problem, s, &problem->runs[r].candidates[k]);
        if (n) workspace = fmax(workspace, (double)problem->runs[r].candidates[k].workspace_bytes);
      }
    most = fmax(most, bytes + workspace);
  }
  return most;
}

static bd_status solve(bd_ctx *ctx, const bd_pipeline_problem *problem, bool leanest,
                       double cap_bytes, double limit_seconds, double cutoff, bd_pipeline *out) {
  *out = (bd_pipeline){.seconds = INFINITY, .bound = INFINITY};
  bd_program program = {0};
  columns x = add_columns(ctx, problem, leanest, &program);
  double sends = 0, unit = leanest ? x.unit.bytes : x.unit.seconds;
  for (int s = 0; s < problem->stages; s++) {
    add_stage(ctx, problem, cap_bytes, &program, &x, s);
    if (!leanest) sends += send_seconds(problem, s);
  }
  add_order(ctx, problem, &program, &x);
  bd_solution solution;
  BD_TRY(bd_solver_run(ctx, &program, limit_seconds, (cutoff - sends) / unit, &solution));
  out->bound = solution.bound * unit + sends;
  if (!solution.values) return BD_OK;
  int cells = problem->stages * bd_pipeline_candidates(problem);
  out->count = BD_NEW_ARRAY(ctx->arena, int, cells);
  for (int i = 0; i < cells; i++)
    out->count[i] = (int)lround(solution.values[x.count[i]]);
  out->seconds = bd_pipeline_seconds(problem, out->count);
  out->bytes = (int64_t)fullest_bytes(problem, out->count);
  out->feasible = leanest || isfinite(out->seconds);
  out->optimal = solution.outcome == BD_SOLVER_OPTIMAL;
  return BD_OK;
}

bd_status bd_pipeline_solve(bd_ctx *ctx, const bd_pipeline_problem *problem, double limit_seconds,
                            double cutoff, bd_pipeline *out_pipeline) {
  // Placements are aligned, so that no sum of bytes lies near this cap.
  int64_t room = problem->cap_bytes / BD_ALIGNMENT * BD_ALIGNMENT;
  double cap = (double)room + BD_ALIGNMENT / 2.0, slack = 1e-7;
  for (int round = 0; round < CAP_ROUNDS; round++) {
    BD_TRY(solve(ctx, problem, false, cap, limit_seconds, cutoff, out_pipeline));
    if (!out_pipeline->count) break;
    double over = (double)(out_pipeline->bytes - problem->cap_bytes);
    if (over <= 0) break;
    cap -= over + slack * cap;
    slack *= 4;
  }
  return BD_OK;
}

bd_status bd_pipeline_leanest(bd_ctx *ctx, const bd_pipeline_problem *problem, double limit_seconds,
                              bd_pipeline *out_pipeline) {
  return solve(ctx, problem, true, 0, limit_seconds, INFINITY, out_pipeline);
}
