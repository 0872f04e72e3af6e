#include "cli/compile.h"
#include "cli/machine.h"
#include "ir/optimizer.h"
#include "ir/pass.h"
#include "planner/full/full.h"
#include <string.h>

static const char *const emit_names[] = {"graph", "train", "plan", "sharded", "spmd",
                                         "exec",  "c",     "exe",  NULL};

enum { LIMIT_SECONDS = 30 }; // of the search

static bd_status read_mesh(bd_ctx *ctx, const bd_arguments *arguments, bd_mesh *out) {
  const char *text = bd_argument(arguments, "--mesh");
  if (bd_mesh_parse(text, out)) return BD_OK;
  return bd_usage_fail(ctx, arguments,
                       "option '--mesh' wants sizes such as 2x4 (at most %d axes), not '%s'",
                       BD_MAX_AXES, text);
}

static bd_status read_cluster(bd_ctx *ctx, const bd_arguments *arguments, bd_cluster *out) {
  const char *spec = bd_argument(arguments, "--cluster");
  int64_t devices = 0;
  BD_TRY(bd_argument_int(ctx, arguments, "--devices", 1, 256, &devices));
  if (spec && devices)
    return bd_usage_fail(ctx, arguments,
                         "give --cluster or --devices, not both; see 'braid %s --help'",
                         arguments->command->name);
  if (!spec && !devices)
    return bd_usage_fail(ctx, arguments, "--cluster or --devices is missing; see 'braid %s --help'",
                         arguments->command->name);
  if (spec) return bd_cluster_load(ctx, spec, out);
  return bd_machine_probe(ctx, (int)devices, out);
}

bd_status bd_compile_check_schedule(bd_ctx *ctx, const bd_compilation *job) {
  const bd_plan_request *request = &job->request;
  if (request->full || !bd_plan_needs_full(request)) return BD_OK;
  return bd_usage_fail(ctx, job->arguments,
                       "schedule %s is only planned and simulated, programs run gpipe and 1f1b; "
                       "'braid compile --space full --emit plan' plans it",
                       bd_schedule_name((bd_schedule)request->schedule));
}

static bd_status read_pins(bd_ctx *ctx, bd_compilation *job) {
  const bd_arguments *arguments = job->arguments;
  bd_plan_request *request = &job->request;
  static const char *const schedules[] = {"gpipe", "1f1b", "interleaved", "zero-bubble", NULL};
  static const char *const recompute[] = {"none", "full", NULL};
  int64_t stages = 0, zero = -1;
  request->schedule = -1;
  request->recompute = -1;
  BD_TRY(bd_argument_int(ctx, arguments, "--stages", 1, BD_MAX_STAGES, &stages));
  BD_TRY(bd_argument_int(ctx, arguments, "--micro-batch", 1, 1 << 20, &request->micro_batch));
  BD_TRY(bd_argument_int(ctx, arguments, "--zero", 0, 3, &zero));
  BD_TRY(bd_argument_choice(ctx, arguments, "--schedule", schedules, &request->schedule));
  BD_TRY(bd_compile_check_schedule(ctx, job));
  BD_TRY(bd_argument_choice(ctx, arguments, "--recompute", recompute, &request->recompute));
  if (bd_argument(arguments, "--mesh")) BD_TRY(read_mesh(ctx, arguments, &request->mesh));
  request->stages = (int)stages;
  request->zero = (int)zero;
  return BD_OK;
}

// Steps that need a plan.
static const char *const steps[] = {"apply-plan", "partition", "lower-exec", NULL};

bool bd_compile_is_step(const char *name) {
  for (int i = 0; name && steps[i]; i++)
    if (strcmp(steps[i], name) == 0) return true;
  return false;
}

static bd_status check_print_after(bd_ctx *ctx, const bd_compilation *job) {
  const char *name = job->print_after;
  if (!name || strcmp(name, "all") == 0 || bd_compile_is_step(name) || bd_pass_find(name))
    return BD_OK;
  return bd_usage_fail(
      ctx, job->arguments,
      "there is no pass '%s'; the passes are %s, and the steps after them %s, %s, %s", name,
      bd_pass_names(ctx), steps[0], steps[1], steps[2]);
}

static bd_status check_masters(bd_ctx *ctx, const bd_compilation *job) {
  if (job->request.masters == BD_MASTERS_F32 || job->request.precision == BD_BF16) return BD_OK;
  if (job->request.precision == BD_F16)
    return bd_usage_fail(ctx, job->arguments,
                         "--masters none is for --precision bf16: numbers of fp16 end at 2^-24 and "
                         "at 65504, and weights would be lost that bf16 keeps");
  return bd_usage_fail(ctx, job->arguments, "--masters none is for --precision bf16 alone");
}

static bd_status check_gradients(bd_ctx *ctx, const bd_compilation *job) {
  if (job->request.gradients == BD_GRADIENTS_F32 || job->request.masters == BD_MASTERS_NONE)
    return BD_OK;
  return bd_usage_fail(ctx, job->arguments,
                       "--gradients bf16 is for --precision bf16 --masters none alone");
}

// A program for other devices than the cluster's is made all the same, to look at or to try out.
static void check_target(bd_ctx *ctx, const bd_compilation *job) {
  bool gpu = strcmp(job->request.target, "cuda") == 0;
  if (job->emit <= BD_EMIT_TRAIN || !job->target || gpu == job->cluster.gpu) return;
  bd_warn(ctx, BD_NOWHERE,
          "--target %s is asked for, but the cluster's devices are %s: the plan is the best for "
          "their rates and memory, and its seconds are theirs",
          job->target, gpu ? "no GPUs" : "GPUs");
}

bd_status bd_compile_read_request(bd_ctx *ctx, bd_compilation *job) {
  static const char *const targets[] = {"cpu", "cuda", NULL};
  static const char *const precisions[] = {"fp32", "bf16", "fp16", "fp8", NULL};
  static const bd_dtype dtypes[] = {BD_F32, BD_BF16, BD_F16, BD_F8};
  static const char *const spaces[] = {"default", "full", NULL};
  const bd_arguments *arguments = job->arguments;
  int target = -1, precision = 0, masters = BD_MASTERS_F32, gradients = BD_GRADIENTS_F32,
      optimizer = BD_OPTIMIZER_ADAMW, emit = BD_EMIT_EXE, space = 0;
  BD_TRY(bd_argument_choice(ctx, arguments, "--emit", emit_names, &emit));
  job->emit = (bd_emit_kind)emit;
  job->out = bd_argument(arguments, "-o");
  job->print_after = bd_argument(arguments, "--print-after");
  BD_TRY(check_print_after(ctx, job));
  BD_TRY(bd_argument_int(ctx, arguments, "--seq", 1, 1 << 24, &job->model.sequence));
  job->model.samples = bd_argument_flag(arguments, "--samples");
  BD_TRY(bd_argument_choice(ctx, arguments, "--precision", precisions, &precision));
  job->request.precision = dtypes[precision];
  BD_TRY(bd_argument_choice(ctx, arguments, "--masters", bd_masters_names(), &masters));
  job->request.masters = (bd_masters)masters;
  BD_TRY(bd_argument_choice(ctx, arguments, "--gradients", bd_gradients_names(), &gradients));
  job->request.gradients = (bd_gradients)gradients;
  if (!bd_argument(arguments, "--plan") || job->emit <= BD_EMIT_TRAIN) {
    BD_TRY(check_masters(ctx, job));
    BD_TRY(check_gradients(ctx, job));
  }
  BD_TRY(bd_argument_choice(ctx, arguments, "--target", targets, &target));
  job->target = target < 0 ? NULL : targets[target];
  job->request.target = target < 0 ? "cpu" : job->target;
  if (job->emit <= BD_EMIT_TRAIN) return BD_OK;
  if (job->emit >= BD_EMIT_C && !job->out)
    return bd_usage_fail(ctx, arguments, "-o FOLDER is missing; see 'braid %s --help'",
                         arguments->command->name);
  bd_plan_request *request = &job->request;
  if (!request->limit_seconds) request->limit_seconds = LIMIT_SECONDS;
  BD_TRY(bd_argument_choice(ctx, arguments, "--optimizer", bd_optimizer_names(), &optimizer));
  BD_TRY(bd_argument_bytes(ctx, arguments, "--memory-cap", &request->cap_bytes));
  BD_TRY(bd_argument_real(ctx, arguments, "--time-limit", 0.1, 86400, &request->limit_seconds));
  BD_TRY(bd_argument_int(ctx, arguments, "--global-batch", 1, 1 << 24, &request->global_batch));
  BD_TRY(bd_argument_choice(ctx, arguments, "--space", spaces, &space));
  request->full = space == 1;
  BD_TRY(read_pins(ctx, job));
  BD_TRY(read_cluster(ctx, arguments, &job->cluster));
  if (!request->global_batch && !bd_argument(arguments, "--plan") &&
      !bd_argument(arguments, "--partial"))
    return bd_usage_fail(ctx, arguments, "--global-batch is missing; see 'braid %s --help'",
                         arguments->command->name);
  if (!job->target) request->target = targets[job->cluster.gpu];
  request->optimizer = bd_optimizer_names()[optimizer];
  request->model = arguments->operand;
  check_target(ctx, job);
  return BD_OK;
}
