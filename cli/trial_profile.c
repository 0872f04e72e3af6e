// Seconds of a program's instructions become rows of a fit.
#include "cli/trial.h"
#include "ir/base/json.h"
#include "ir/fuse.h"
#include "planner/step/end_fit.h"
#include "runtime/braid_rt_abi.h"

static void add_row(bd_ctx *ctx, bd_fit_rows *rows, const bd_fit_row *row) {
  if (rows->row_count == rows->row_capacity) {
    int wanted = rows->row_capacity ? 2 * rows->row_capacity : 128;
    rows->rows = bd_arena_grow(ctx->session, rows->rows, (size_t)rows->row_count, (size_t)wanted,
                               sizeof *rows->rows);
    rows->row_capacity = wanted;
  }
  rows->rows[rows->row_count++] = *row;
}

void bd_trial_add_rows(bd_ctx *ctx, const bd_fit_rows *of, bd_fit_rows *rows) {
  for (int i = 0; i < of->row_count; i++)
    add_row(ctx, rows, &of->rows[i]);
  for (int i = 0; i < of->end_count && rows->end_count < BD_FIT_MAX_ENDS; i++)
    rows->ends[rows->end_count++] = of->ends[i];
  if (of->least_seconds < rows->least_seconds) rows->least_seconds = of->least_seconds;
}

// Most calls are as short as the shortest; longer ones waited for ranks or for other programs.
#define LONGEST_OF_SHORTEST 1.25

static double typical(double mean, double least) {
  return mean < LONGEST_OF_SHORTEST * least ? mean : LONGEST_OF_SHORTEST * least;
}

// The ops of an instruction; false for the runtime's own.
static bool find_ops(bd_ctx *ctx, const bd_trial *p, int function, int step, bd_fit_row *row) {
  bd_fusion fusion;
  if (step < 0 || function >= p->exec->function_count) return false;
  row->function = function < 0 ? p->exec->main : p->exec->functions[function];
  row->first = step;
  row->count = 1;
  if (function < 0) return step < row->function->op_count;
  bd_fuse(ctx, p->exec, row->function, &fusion);
  if (step >= fusion.step_count) return false;
  row->first = fusion.first_op[step];
  row->count = fusion.step_ops[step];
  return true;
}

typedef struct timing {
  int64_t instruction, calls;
  double seconds, least;
} timing;

static bd_status read_time(bd_ctx *ctx, const bd_json *row, timing *out) {
  bool whole = row->kind == BD_JSON_ARRAY && row->count == 4;
  for (size_t i = 0; whole && i < 4; i++)
    whole = row->items[i].kind == BD_JSON_INT || (i > 1 && row->items[i].kind == BD_JSON_REAL);
  whole = whole && row->items[2].real >= 0 && row->items[3].real >= 0;
  if (!whole) return bd_fail(ctx, BD_INVALID, row->loc, "is no time of an instruction");
  *out = (timing){row->items[0].integer, row->items[1].integer, row->items[2].real,
                  row->items[3].real};
  return BD_OK;
}

// Those of one rank.
static bd_status add_times(bd_ctx *ctx, const bd_trial *p, const bd_cluster *cluster,
                           const bd_json *instructions, const bd_json *rank, bd_fit_rows *rows) {
  double end_seconds = 0;
  int64_t stage;
  const bd_json *times;
  BD_TRY(bd_json_int(ctx, rank, "stage", true, 0, p->plan.stages - 1, &stage));
  BD_TRY(bd_json_array(ctx, rank, "times", true, &times));
  for (size_t i = 0; i < times->count; i++) {
    timing t = {0};
    int64_t function, step;
    bd_fit_row row = {.module = p->exec, .model = {cluster, p->plan.mesh, p->plan.micro_batch}};
    BD_TRY(read_time(ctx, &times->items[i], &t));
    if (t.instruction < 0 || t.instruction >= (int64_t)instructions->count || t.calls < 1) continue;
    double seconds = typical(t.seconds / (double)t.calls, t.least);
    const bd_json *at = &instructions->items[t.instruction];
    BD_TRY(bd_json_int(ctx, at, "function", true, -1, INT32_MAX, &function));
    BD_TRY(bd_json_int(ctx, at, "step", true, -1, INT32_MAX, &step));
    if (t.instruction == BD_RT_MARK_CLEAR || t.instruction == BD_RT_MARK_UPDATE)
      end_seconds += seconds;
    if (seconds <= 0 || !find_ops(ctx, p, (int)function, (int)step, &row)) continue;
    row.seconds = seconds;
    row.weight = seconds * (double)t.calls;
    add_row(ctx, rows, &row);
    if (t.least < rows->least_seconds) rows->least_seconds = t.least;
  }
  if (stage != 0) return BD_OK;
  bd_cost_model model = {cluster, p->plan.mesh, p->plan.micro_batch};
  return bd_step_end_fit(ctx, &model, p->spmd, &p->plan, end_seconds, rows);
}

bd_status bd_trial_read_profile(bd_ctx *ctx, const bd_trial *p, const bd_cluster *cluster,
                                const char *path, bd_fit_rows *rows) {
  const bd_json *profile, *instructions, *ranks;
  BD_TRY(bd_json_read(ctx, path, &profile));
  BD_TRY(bd_json_array(ctx, profile, "instructions", true, &instructions));
  BD_TRY(bd_json_array(ctx, profile, "ranks", true, &ranks));
  if (ranks->count == 0) return bd_fail(ctx, BD_INVALID, ranks->loc, "has no ranks");
  for (size_t r = 0; r < ranks->count; r += (size_t)bd_mesh_devices(&p->plan.mesh))
    BD_TRY(add_times(ctx, p, cluster, instructions, &ranks->items[r], rows));
  return BD_OK;
}
