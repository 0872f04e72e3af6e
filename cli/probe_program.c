// One program of a measurement: planned, built, trained, and its profile read.
#include "cli/probe.h"
#include "cli/stop.h"
#include "cli/trial.h"
#include "frontend/frontend.h"
#include "ir/base/file.h"
#include "ir/pass.h"
#include "planner/constraints/constraints.h"
#include "planner/planner.h"

enum { SAMPLES = 4, STEPS = 12, VOCABULARY = 256 };
#define PROFILE "profile.json"

static bd_status build(bd_ctx *ctx, const bd_cluster *cluster, const bd_probe_case *what,
                       const char *folder, bd_trial *out) {
  int devices = bd_cluster_devices(cluster), stages = what->cut == BD_PROBE_STAGES ? devices : 1;
  bd_model_options options = {.sequence = what->sequence};
  bd_constraints data = {.degree = {[BD_CUT_SAMPLES] = devices}};
  bd_module *graph, *train;
  bd_plan plan;
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
  BD_TRY(bd_plan_search(ctx, train, cluster, &request, &plan));
  return bd_trial_build(ctx, train, &plan, &(bd_build_options){.executable = true}, folder, out);
}

static bd_status train_program(bd_ctx *ctx, const bd_trial *p, int64_t sequence) {
  bd_process_end end;
  bd_training training = {.data = bd_path_join(ctx, p->folder, "data.bin"),
                          .tokenizer = BD_TRIAL_TOKENIZER,
                          .steps = STEPS,
                          .profile = PROFILE};
  BD_TRY(bd_trial_write_tokens(ctx, training.data, VOCABULARY, sequence));
  BD_TRY(bd_trial_train(ctx, p, &training, &end));
  if (end.stopped_by)
    return bd_fail(ctx, BD_EXTERNAL, BD_NOWHERE, "measuring was stopped by %s; nothing is written",
                   bd_stop_word(end.stopped_by));
  if (end.exit_code == 0) return BD_OK;
  return bd_fail(ctx, BD_EXTERNAL, BD_NOWHERE, "the program that measures this machine failed");
}

bd_status bd_probe_program(bd_ctx *ctx, const bd_cluster *cluster, const bd_probe_case *what,
                           const char *folder, bd_fit_rows *rows) {
  bd_trial p;
  BD_TRY(build(ctx, cluster, what, folder, &p));
  BD_TRY(train_program(ctx, &p, what->sequence));
  return bd_trial_read_profile(ctx, &p, cluster, bd_path_join(ctx, folder, PROFILE), rows);
}
