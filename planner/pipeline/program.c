#include "planner/pipeline/program.h"
#include "planner/pipeline/flow_rows.h"
#include "planner/pipeline/stage_rows.h"
#include <math.h>

// GPipe: the slowest forward and the slowest backward pass.
static void add_slowest(bd_posing *b) {
  const bd_pipeline_problem *p = b->problem;
  for (int way = 0; way < 2; way++) {
    int slowest = bd_posing_add_seconds(b, p->micro_batches - 1);
    for (int s = 0; s < p->stages; s++) {
      int row = bd_program_add_row(b->ctx, &b->program, -INFINITY, 0);
      bd_posing_put(b, row, way ? b->backward[s] : b->forward[s], 1);
      bd_posing_put(b, row, slowest, -1);
    }
  }
}

static int new_path(bd_posing *b, int rest) {
  int row = bd_program_add_row(b->ctx, &b->program, -INFINITY, 0);
  bd_posing_put(b, row, rest, -1);
  return row;
}

// So many passes of a stage, beside the one of each kind that every step counts.
static void add_passing(bd_posing *b, int row, int stage, int forwards, int backwards) {
  if (forwards) bd_posing_put(b, row, b->forward[stage], forwards);
  if (backwards) bd_posing_put(b, row, b->backward[stage], backwards);
}

// 1F1B: what paths take beside the sum of the stages (planner/step/bound.h).
static void add_paths(bd_posing *b, int path_count, const bd_step_path *paths) {
  const bd_pipeline_problem *p = b->problem;
  int rest = bd_posing_add_seconds(b, 1), others = p->micro_batches - 1;
  for (int s = 0; s < p->stages; s++) {
    int ahead = bd_schedule_in_flight(p->schedule, s, p->stages, p->micro_batches) - 1;
    if (others > ahead) {
      int around = new_path(b, rest);
      add_passing(b, around, s, others - ahead, others - ahead);
      for (int after = s + 1; after < p->stages; after++)
        add_passing(b, around, after, 1, 1);
    }
    if (ahead == 0) continue;
    add_passing(b, new_path(b, rest), s, others - ahead, others);
    add_passing(b, new_path(b, rest), s, others, others - ahead);
  }
  for (int i = 0; i < path_count; i++) {
    int row = new_path(b, rest);
    for (int s = 0; s < p->stages; s++)
      add_passing(b, row, s, paths[i].forwards[s] - 1, paths[i].backwards[s] - 1);
  }
}

static void read_solution(bd_posing *b, const double *values, bd_pipeline *out) {
  const bd_pipeline_problem *p = b->problem;
  int cells = p->stages * bd_pipeline_candidates(p), F = p->form_count;
  out->count = BD_NEW_ARRAY(b->ctx->arena, int, cells);
  out->entry = BD_NEW_ARRAY(b->ctx->arena, int, p->stages * p->run_count);
  for (int i = 0; i < cells; i++)
    out->count[i] = (int)lround(values[b->count[i]]);
  for (int cell = 0; cell < p->stages * p->run_count; cell++) {
    out->entry[cell] = -1;
    for (int i = 0; i < F * F; i++)
      if (b->pass[cell * F * F + i] >= 0 && values[b->pass[cell * F * F + i]] > 0.5)
        out->entry[cell] = i / F;
  }
}

bd_status bd_pipeline_program_solve(bd_ctx *ctx, const bd_pipeline_problem *problem,
                                    const bd_pipeline_limits *limits, bd_pipeline *out) {
  *out = (bd_pipeline){.seconds = INFINITY, .bound = INFINITY};
  bd_posing b = {.ctx = ctx, .problem = problem, .program = {.solver = problem->solver}};
  bd_posing_add_columns(&b);
  for (int s = 0; s < problem->stages; s++) {
    bd_posing_add_stage(&b, limits->cap_bytes, s);
    bd_posing_add_flow(&b, s);
  }
  bd_posing_add_totals(&b);
  if (problem->schedule == BD_SCHEDULE_GPIPE)
    add_slowest(&b);
  else
    add_paths(&b, limits->path_count, limits->paths);
  bd_solution solution;
  BD_TRY(bd_solver_run(ctx, &b.program, limits->limit_seconds, limits->cutoff / b.unit.seconds,
                       &solution));
  out->bound = solution.bound * b.unit.seconds;
  out->optimal = solution.outcome == BD_SOLVER_OPTIMAL || solution.outcome == BD_SOLVER_INFEASIBLE;
  if (!solution.values) return BD_OK;
  read_solution(&b, solution.values, out);
  out->seconds = bd_pipeline_seconds(problem, out->count, out->entry);
  out->bytes = (int64_t)bd_pipeline_bytes(problem, out->count, out->entry);
  out->feasible = isfinite(out->seconds);
  return BD_OK;
}
