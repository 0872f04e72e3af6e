// One program of a measurement: planned, built, trained, and its profile read.
#include "cli/build.h"
#include "cli/mpirun.h"
#include "cli/probe.h"
#include "cli/process.h"
#include "cli/stop.h"
#include "codegen/codegen.h"
#include "frontend/frontend.h"
#include "ir/base/file.h"
#include "ir/base/json.h"
#include "ir/fuse.h"
#include "ir/layout.h"
#include "ir/pass.h"
#include "planner/constraints/constraints.h"
#include "planner/planner.h"
#include "planner/step/end.h"
#include "runtime/braid_rt_abi.h"
#include <string.h>

enum { SAMPLES = 4, STEPS = 12, TEXT_BYTES = 1 << 16 };

typedef struct program {
  bd_plan plan;
  bd_module *spmd, *exec;
  const char *folder;
} program;

static bd_status build(bd_ctx *ctx, const bd_cluster *cluster, const bd_probe_case *what,
                       program *p) {
  int devices = bd_cluster_devices(cluster), stages = what->cut == BD_PROBE_STAGES ? devices : 1;
  bd_model_options options = {.sequence = what->sequence};
  bd_constraints data = {.degree = {[BD_CUT_SAMPLES] = devices}};
  bd_module *graph, *train, *sharded;
  BD_TRY(bd_model_load(ctx, what->model, &options, &graph));
  BD_TRY(bd_pass_run_list(ctx, "canonicalize,cse,dce,autodiff", NULL, stderr, graph, &train));
  bd_plan_request request = {
      .model = what->model,
      .target = "cpu",
      .optimizer = "adamw",
      .global_batch = SAMPLES,
      .sequence = what->sequence,
      .limit_seconds = 10,
      .stages = stages,
      .mesh = {what->cut != BD_PROBE_DATA, {devices / stages}},
      .schedule = -1,
      .micro_batch = SAMPLES / stages,
      .recompute = 0,
      .constraints = what->cut == BD_PROBE_DATA ? &data : NULL,
  };
  BD_TRY(bd_plan_search(ctx, train, cluster, &request, &p->plan));
  BD_TRY(bd_apply_plan(ctx, train, &p->plan, &sharded));
  BD_TRY(bd_partition(ctx, sharded, &p->spmd));
  BD_TRY(bd_lower_exec(ctx, p->spmd, &p->plan, &p->exec));
  return bd_build_folder(ctx, train, p->exec, &p->plan, true, p->folder);
}

// Any text trains: what is measured does not depend on it.
static bd_status write_data(bd_ctx *ctx, const char *path) {
  char *text = bd_arena_array(ctx->arena, TEXT_BYTES, 1);
  for (uint32_t i = 0, state = 1; i < TEXT_BYTES; i++, state = state * 1664525 + 1013904223)
    text[i] = (char)('a' + (state >> 24) % 26);
  return bd_file_write_unsynced(ctx, path, text, TEXT_BYTES);
}

static bd_status train_program(bd_ctx *ctx, const program *p, const char **out_profile) {
  bd_process_end end;
  const char *data = bd_path_join(ctx, p->folder, "data.txt");
  const char *log = bd_path_join(ctx, p->folder, "log");
  *out_profile = bd_path_join(ctx, p->folder, "profile.json");
  BD_TRY(write_data(ctx, data));
  const char *const arguments[] = {
      "--data", data, "--steps", bd_intern_f(ctx, "%d", STEPS), "--profile", *out_profile};
  char **argv = bd_mpirun_line(ctx, bd_plan_ranks(&p->plan), bd_path_join(ctx, p->folder, "train"),
                               (int)(sizeof arguments / sizeof *arguments), arguments);
  BD_TRY(bd_mpirun_check(ctx));
  BD_TRY(bd_process_run(ctx, argv, log, &end));
  if (end.stopped_by)
    return bd_fail(ctx, BD_EXTERNAL, BD_NOWHERE, "measuring was stopped by %s; nothing is written",
                   bd_stop_word(end.stopped_by));
  if (end.exit_code == 0) return BD_OK;
  return bd_fail(ctx, BD_EXTERNAL, BD_NOWHERE, "the program that measures this machine failed");
}

static void add_row(bd_ctx *ctx, bd_fit_rows *rows, const bd_fit_row *row) {
  if (rows->row_count == rows->row_capacity) {
    int wanted = rows->row_capacity ? 2 * rows->row_capacity : 128;
    rows->rows = bd_arena_grow(ctx->session, rows->rows, (size_t)rows->row_count, (size_t)wanted,
                               sizeof *rows->rows);
    rows->row_capacity = wanted;
  }
  rows->rows[rows->row_count++] = *row;
}

// Seconds of the step's end of stage 0 when only one thing takes any.
static bd_status end_on(bd_ctx *ctx, const program *p, const bd_layout *layout,
                        const bd_cluster *cluster, bd_step_end *out_seconds) {
  bd_cost_model model = {cluster, p->plan.mesh, p->plan.micro_batch};
  return bd_step_end_of_stage(ctx, &model, p->spmd, layout, p->plan.optimizer, p->plan.zero_axes,
                              out_seconds);
}

static bd_status add_end(bd_ctx *ctx, const program *p, const bd_cluster *cluster, double seconds,
                         bd_fit_rows *rows) {
  bd_cluster slow = *cluster, far = *cluster;
  bd_layout layout;
  const bd_tie *ties;
  int tie_count;
  BD_TRY(bd_layout_of_stage(ctx, p->spmd, 0, p->plan.schedule, bd_plan_micro_batches(&p->plan),
                            p->plan.optimizer, p->plan.zero_axes, &layout));
  slow.work.update_bytes_per_second = far.work.update_bytes_per_second = 1;
  slow.kernel_seconds = far.kernel_seconds = 0;
  slow.intra = slow.inter = (bd_link){.bytes_per_second = 1};
  far.intra = far.inter = (bd_link){.latency_seconds = 1, .bytes_per_second = 1e21};
  bd_step_end on_slow, on_far;
  BD_TRY(end_on(ctx, p, &layout, &slow, &on_slow));
  BD_TRY(end_on(ctx, p, &layout, &far, &on_far));
  bd_cost_model model = {cluster, p->plan.mesh, p->plan.micro_batch};
  bd_step_end_ties(ctx, &model, p->spmd, &ties, &tie_count);
  if (tie_count > 0 || rows->end_count == BD_FIT_MAX_ENDS) return BD_OK;
  bd_fit_end end = {.update_bytes = on_slow.reduce + on_slow.update, .seconds = seconds};
  for (int axis = 0; axis < p->plan.mesh.axes; axis++) {
    end.link_bytes += on_slow.collective[axis];
    end.latencies += on_far.collective[axis];
  }
  end.update_bytes -= end.link_bytes;
  rows->ends[rows->end_count++] = end;
  return BD_OK;
}

// Most calls are as short as the shortest; longer ones waited for ranks or for other programs.
#define LONGEST_OF_SHORTEST 1.25

static double typical(double mean, double least) {
  return mean < LONGEST_OF_SHORTEST * least ? mean : LONGEST_OF_SHORTEST * least;
}

// The ops of an instruction; false for the runtime's own.
static bool find_ops(bd_ctx *ctx, const program *p, int function, int step, bd_fit_row *row) {
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
  if (!whole) return bd_fail(ctx, BD_EXTERNAL, row->loc, "is no time of an instruction");
  *out = (timing){row->items[0].integer, row->items[1].integer, row->items[2].real,
                  row->items[3].real};
  return BD_OK;
}

static bd_status add_times(bd_ctx *ctx, const program *p, const bd_cluster *cluster,
                           const bd_json *instructions, const bd_json *times, bd_fit_rows *rows) {
  double end_seconds = 0;
  for (size_t i = 0; i < times->count; i++) {
    timing t = {0};
    int64_t function, step;
    bd_fit_row row = {.model = {cluster, p->plan.mesh, p->plan.micro_batch}};
    BD_TRY(read_time(ctx, &times->items[i], &t));
    if (t.instruction < 0 || t.instruction >= (int64_t)instructions->count || t.calls < 1) continue;
    double seconds = typical(t.seconds / (double)t.calls, t.least);
    const bd_json *at = &instructions->items[t.instruction];
    BD_TRY(bd_json_int(ctx, at, "function", true, -1, INT32_MAX, &function));
    BD_TRY(bd_json_int(ctx, at, "step", true, -1, INT32_MAX, &step));
    if (t.instruction == BD_RT_MARK_CLEAR || t.instruction == BD_RT_MARK_UPDATE)
      end_seconds += seconds;
    if (!find_ops(ctx, p, (int)function, (int)step, &row)) continue;
    row.seconds = seconds;
    row.weight = seconds * (double)t.calls;
    add_row(ctx, rows, &row);
    if (t.least < rows->least_seconds) rows->least_seconds = t.least;
  }
  return add_end(ctx, p, cluster, end_seconds, rows);
}

bd_status bd_probe_program(bd_ctx *ctx, const bd_cluster *cluster, const bd_probe_case *what,
                           const char *folder, bd_fit_rows *rows) {
  program p = {.folder = folder};
  const bd_json *profile, *instructions, *ranks, *times;
  const char *path;
  BD_TRY(build(ctx, cluster, what, &p));
  BD_TRY(train_program(ctx, &p, &path));
  BD_TRY(bd_json_read(ctx, path, &profile));
  BD_TRY(bd_json_array(ctx, profile, "instructions", true, &instructions));
  BD_TRY(bd_json_array(ctx, profile, "ranks", true, &ranks));
  if (ranks->count == 0) return bd_fail(ctx, BD_EXTERNAL, ranks->loc, "has no ranks");
  BD_TRY(bd_json_array(ctx, &ranks->items[0], "times", true, &times));
  return add_times(ctx, &p, cluster, instructions, times, rows);
}
