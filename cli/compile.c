// `braid compile`: model and cluster to plan, sources and executable.
#include "cli/advice.h"
#include "cli/answer.h"
#include "cli/build.h"
#include "cli/command.h"
#include "cli/constraints.h"
#include "cli/cuda_toolkit.h"
#include "cli/folder.h"
#include "cli/given_plan.h"
#include "cli/machine.h"
#include "cli/planning.h"
#include "codegen/codegen.h"
#include "frontend/frontend.h"
#include "ir/base/clock.h"
#include "ir/base/file.h"
#include "ir/optimizer.h"
#include "ir/pass.h"
#include "ir/plan_notes.h"
#include "planner/full/full.h"
#include "planner/planner.h"
#include "planner/told/breakdown.h"
#include <string.h>

#define PLAN_LIMIT_BYTES ((size_t)64 << 20)

typedef enum emit_kind {
  EMIT_GRAPH,
  EMIT_TRAIN,
  EMIT_PLAN,
  EMIT_SHARDED,
  EMIT_SPMD,
  EMIT_EXEC,
  EMIT_C,
  EMIT_EXE
} emit_kind;
static const char *const emit_names[] = {"graph", "train", "plan", "sharded", "spmd",
                                         "exec",  "c",     "exe",  NULL};

typedef struct compilation {
  const bd_arguments *arguments;
  emit_kind emit;
  const char *out, *print_after;
  const char *target; // as given, or NULL
  bd_model_options model;
  bd_cluster cluster;
  bd_plan_request request;
  bd_constraints constraints; // of the request
  char *plan_data;            // of --plan
  size_t plan_bytes;
} compilation;

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
                         "give --cluster or --devices, not both; see 'braid compile --help'");
  if (!spec && !devices)
    return bd_usage_fail(ctx, arguments,
                         "--cluster or --devices is missing; see 'braid compile --help'");
  if (spec) return bd_cluster_load(ctx, spec, out);
  return bd_machine_probe(ctx, (int)devices, out);
}

static bd_status check_schedule(bd_ctx *ctx, const bd_arguments *arguments,
                                const bd_plan_request *request) {
  if (request->full || !bd_plan_needs_full(request)) return BD_OK;
  return bd_usage_fail(ctx, arguments,
                       "schedule %s is only planned and simulated, programs run gpipe and 1f1b; "
                       "--space full --emit plan plans it",
                       bd_schedule_name((bd_schedule)request->schedule));
}

static bd_status read_pins(bd_ctx *ctx, const bd_arguments *arguments, bd_plan_request *request) {
  static const char *const schedules[] = {"gpipe", "1f1b", "interleaved", "zero-bubble", NULL};
  static const char *const recompute[] = {"none", "full", NULL};
  int64_t stages = 0, zero = -1;
  request->schedule = -1;
  request->recompute = -1;
  BD_TRY(bd_argument_int(ctx, arguments, "--stages", 1, BD_MAX_STAGES, &stages));
  BD_TRY(bd_argument_int(ctx, arguments, "--micro-batch", 1, 1 << 20, &request->micro_batch));
  BD_TRY(bd_argument_int(ctx, arguments, "--zero", 0, 3, &zero));
  BD_TRY(bd_argument_choice(ctx, arguments, "--schedule", schedules, &request->schedule));
  BD_TRY(check_schedule(ctx, arguments, request));
  BD_TRY(bd_argument_choice(ctx, arguments, "--recompute", recompute, &request->recompute));
  if (bd_argument(arguments, "--mesh")) BD_TRY(read_mesh(ctx, arguments, &request->mesh));
  request->stages = (int)stages;
  request->zero = (int)zero;
  return BD_OK;
}

// Steps that need a plan, whose modules --print-after shows as well.
static const char *const steps[] = {"apply-plan", "partition", "lower-exec", NULL};

static bool is_step(const char *name) {
  for (int i = 0; name && steps[i]; i++)
    if (strcmp(steps[i], name) == 0) return true;
  return false;
}

// What the passes are told of --print-after.
static const char *printed_pass(const compilation *job) {
  return is_step(job->print_after) ? NULL : job->print_after;
}

static bd_status check_print_after(bd_ctx *ctx, const compilation *job) {
  const char *name = job->print_after;
  if (!name || strcmp(name, "all") == 0 || is_step(name) || bd_pass_find(name)) return BD_OK;
  return bd_usage_fail(
      ctx, job->arguments,
      "there is no pass '%s'; the passes are %s, and the steps after them %s, %s, %s", name,
      bd_pass_names(ctx), steps[0], steps[1], steps[2]);
}

static bd_status check_masters(bd_ctx *ctx, const compilation *job) {
  if (job->request.masters == BD_MASTERS_F32 || job->request.precision == BD_BF16) return BD_OK;
  if (job->request.precision == BD_F16)
    return bd_usage_fail(ctx, job->arguments,
                         "--masters none is for --precision bf16: numbers of fp16 end at 2^-24 and "
                         "at 65504, and weights would be lost that bf16 keeps");
  return bd_usage_fail(ctx, job->arguments, "--masters none is for --precision bf16 alone");
}

static bd_status read_request(bd_ctx *ctx, compilation *job) {
  static const char *const targets[] = {"cpu", "cuda", NULL};
  static const char *const precisions[] = {"fp32", "bf16", "fp16", "fp8", NULL};
  static const bd_dtype dtypes[] = {BD_F32, BD_BF16, BD_F16, BD_F8};
  static const char *const spaces[] = {"default", "full", NULL};
  const bd_arguments *arguments = job->arguments;
  int target = -1, precision = 0, masters = BD_MASTERS_F32, optimizer = BD_OPTIMIZER_ADAMW,
      emit = EMIT_EXE, space = 0;
  BD_TRY(bd_argument_choice(ctx, arguments, "--emit", emit_names, &emit));
  job->emit = (emit_kind)emit;
  job->out = bd_argument(arguments, "-o");
  job->print_after = bd_argument(arguments, "--print-after");
  BD_TRY(check_print_after(ctx, job));
  BD_TRY(bd_argument_int(ctx, arguments, "--seq", 1, 1 << 24, &job->model.sequence));
  job->model.samples = bd_argument_flag(arguments, "--samples");
  BD_TRY(bd_argument_choice(ctx, arguments, "--precision", precisions, &precision));
  job->request.precision = dtypes[precision];
  BD_TRY(bd_argument_choice(ctx, arguments, "--masters", bd_masters_names(), &masters));
  job->request.masters = (bd_masters)masters;
  if (!bd_argument(arguments, "--plan") || job->emit <= EMIT_TRAIN) BD_TRY(check_masters(ctx, job));
  BD_TRY(bd_argument_choice(ctx, arguments, "--target", targets, &target));
  job->target = target < 0 ? NULL : targets[target];
  job->request.target = target < 0 ? "cpu" : job->target;
  if (job->emit <= EMIT_TRAIN) return BD_OK;
  if (job->emit >= EMIT_C && !job->out)
    return bd_usage_fail(ctx, arguments, "-o FOLDER is missing; see 'braid compile --help'");
  bd_plan_request *request = &job->request;
  request->limit_seconds = 30;
  BD_TRY(bd_argument_choice(ctx, arguments, "--optimizer", bd_optimizer_names(), &optimizer));
  BD_TRY(bd_argument_bytes(ctx, arguments, "--memory-cap", &request->cap_bytes));
  BD_TRY(bd_argument_real(ctx, arguments, "--time-limit", 0.1, 86400, &request->limit_seconds));
  BD_TRY(bd_argument_int(ctx, arguments, "--global-batch", 1, 1 << 24, &request->global_batch));
  BD_TRY(bd_argument_choice(ctx, arguments, "--space", spaces, &space));
  request->full = space == 1;
  BD_TRY(read_pins(ctx, arguments, request));
  BD_TRY(read_cluster(ctx, arguments, &job->cluster));
  if (!request->global_batch && !bd_argument(arguments, "--plan") &&
      !bd_argument(arguments, "--partial"))
    return bd_usage_fail(ctx, arguments, "--global-batch is missing; see 'braid compile --help'");
  if (!job->target) request->target = targets[job->cluster.gpu];
  request->optimizer = bd_optimizer_names()[optimizer];
  request->model = arguments->operand;
  return BD_OK;
}

// A program for other devices than the cluster's is made all the same, to look at or to try out.
static void check_target(bd_ctx *ctx, const compilation *job) {
  bool gpu = strcmp(job->request.target, "cuda") == 0;
  if (job->emit <= EMIT_TRAIN || !job->target || gpu == job->cluster.gpu) return;
  bd_warn(ctx, BD_NOWHERE,
          "--target %s is asked for, but the cluster's devices are %s: the plan is the best for "
          "their rates and memory, and its seconds are theirs",
          job->target, gpu ? "no GPUs" : "GPUs");
}

static bd_status write_module(bd_ctx *ctx, const bd_module *module, const char *path) {
  bd_text text = bd_text_init(ctx->arena);
  bd_module_print(module, &text);
  return bd_answer_write(ctx, &text, path);
}

static void print_stage(bd_ctx *ctx, const compilation *job, const bd_module *module,
                        const char *pass) {
  if (!job->print_after || (strcmp(job->print_after, "all") && strcmp(job->print_after, pass)))
    return;
  bd_text text = bd_text_init(ctx->arena);
  bd_module_print(module, &text);
  fprintf(stderr, "// after %s\n%s", pass, text.data);
}

// A plan that is given names its precision and its target, which the training module must be for
// before the plan can be read in full.
static bd_status read_plan(bd_ctx *ctx, compilation *job) {
  const char *path = bd_argument(job->arguments, "--plan");
  if (!path || job->emit <= EMIT_TRAIN) return BD_OK;
  bd_plan plan;
  BD_TRY(bd_file_read(ctx, path, PLAN_LIMIT_BYTES, &job->plan_data, &job->plan_bytes));
  BD_TRY(bd_plan_parse(ctx, path, job->plan_data, job->plan_bytes, NULL, &plan));
  const char *wanted = bd_argument(job->arguments, "--precision");
  if (wanted && plan.precision != job->request.precision)
    return bd_fail(ctx, BD_INVALID, bd_loc_file(path),
                   "the plan is for %s; leave --precision %s out", bd_dtype_name(plan.precision),
                   wanted);
  if (job->target && strcmp(job->target, plan.target) != 0)
    return bd_fail(ctx, BD_INVALID, bd_loc_file(path), "the plan is for %s; leave --target %s out",
                   plan.target, job->target);
  if (bd_argument(job->arguments, "--masters") && plan.masters != job->request.masters)
    return bd_fail(ctx, BD_INVALID, bd_loc_file(path),
                   "the plan says otherwise; leave --masters %s out",
                   bd_argument(job->arguments, "--masters"));
  job->request.precision = plan.precision;
  job->request.masters = plan.masters;
  job->request.target = plan.target;
  return BD_OK;
}

// Within what the search has left of its time.
static void advise_sequence(bd_ctx *ctx, const compilation *job, double begun_seconds) {
  bd_plan_request request = job->request;
  request.limit_seconds -= bd_clock_seconds() - begun_seconds;
  if (request.limit_seconds > 0)
    bd_advise_sequence(ctx, job->arguments->operand, &job->model, &job->cluster, &request);
}

static bd_status search_plan(bd_ctx *ctx, compilation *job, const bd_module *train, bd_plan *out) {
  BD_TRY(bd_constraints_options(ctx, job->arguments, train, &job->request, &job->constraints));
  if (!job->request.global_batch)
    return bd_usage_fail(ctx, job->arguments,
                         "--global-batch is missing, and the partial plan does not say it");
  BD_TRY(check_schedule(ctx, job->arguments, &job->request));
  if (job->request.full && bd_plan_check_full(ctx, &job->request) != BD_OK) {
    *job->arguments->exit_code = BD_EXIT_USAGE;
    return BD_INVALID;
  }
  double begun = bd_clock_seconds();
  bd_status status =
      bd_planning_search(ctx, job->arguments, train, &job->cluster, &job->request, out);
  bool open = !job->constraints.strategy_count; // of another module's ops else
  if (status == BD_INFEASIBLE && open) advise_sequence(ctx, job, begun);
  return status;
}

static bd_status make_plan(bd_ctx *ctx, compilation *job, const bd_module *train, bd_plan *out) {
  const char *path = bd_argument(job->arguments, "--plan");
  if (!path) return search_plan(ctx, job, train, out);
  BD_TRY(bd_plan_parse(ctx, path, job->plan_data, job->plan_bytes, train, out));
  BD_TRY(bd_plan_check(ctx, train, out));
  BD_TRY(bd_plan_check_ranks(ctx, &job->cluster, out));
  BD_TRY(bd_plan_predict(ctx, train, &job->cluster, out));
  return bd_given_plan_accept(ctx, path, job->arguments, &job->cluster, &job->request, out);
}

// After the plan: sharded, spmd, exec, and the folder.
static bd_status lower(bd_ctx *ctx, const compilation *job, const bd_module *train,
                       const bd_plan *plan) {
  bd_module *sharded, *spmd, *exec;
  BD_TRY(bd_plan_emitted(ctx, plan));
  BD_TRY(bd_apply_plan(ctx, train, plan, &sharded));
  BD_TRY(bd_module_verify(ctx, sharded));
  print_stage(ctx, job, sharded, "apply-plan");
  if (job->emit == EMIT_SHARDED) return write_module(ctx, sharded, job->out);
  BD_TRY(bd_partition(ctx, sharded, &spmd));
  BD_TRY(bd_module_verify(ctx, spmd));
  print_stage(ctx, job, spmd, "partition");
  if (job->emit == EMIT_SPMD) return write_module(ctx, spmd, job->out);
  BD_TRY(bd_lower_exec(ctx, spmd, plan, &exec));
  BD_TRY(bd_module_verify(ctx, exec));
  print_stage(ctx, job, exec, "lower-exec");
  if (job->emit == EMIT_EXEC) return write_module(ctx, exec, job->out);
  return bd_build_folder(ctx, train, exec, plan, job->emit == EMIT_EXE, job->out);
}

// What the plan file tells its readers beside the plan.
static bd_status describe_plan(bd_ctx *ctx, const compilation *job, const bd_module *train,
                               bd_plan *plan) {
  const char *spec = bd_argument(job->arguments, "--cluster");
  bd_familiar_list familiar = {0};
  if (!bd_argument(job->arguments, "--plan"))
    BD_TRY(bd_planning_compare(ctx, train, &job->cluster, &job->request, plan, &familiar));
  plan->cluster =
      spec ? spec : bd_intern_f(ctx, "machine:%s", bd_argument(job->arguments, "--devices"));
  BD_TRY(bd_plan_note(ctx, train, plan));
  BD_TRY(bd_plan_break_down(ctx, train, &job->cluster, plan));
  plan->details->familiar_count = familiar.count;
  plan->details->familiar = familiar.items;
  return BD_OK;
}

// What writing and building will need is looked for before the search.
static bd_status check_tools(bd_ctx *ctx, const compilation *job) {
  const char *folder;
  if (job->emit >= EMIT_C)
    BD_TRY(bd_folder_check(ctx, job->out));
  else if (job->out && bd_file_exists(job->out) &&
           bd_file_is_one(job->out, job->arguments->operand))
    return bd_fail(ctx, BD_INVALID, bd_loc_file(job->out),
                   "is the model that is read; write to another file");
  else if (job->out)
    return bd_file_check_place(ctx, job->out);
  if (job->emit != EMIT_EXE || bd_argument(job->arguments, "--plan") ||
      strcmp(job->request.target, "cuda"))
    return BD_OK;
  return bd_cuda_toolkit_find(ctx, &folder);
}

static bd_status run(bd_ctx *ctx, const bd_arguments *arguments) {
  compilation job = {.arguments = arguments};
  bd_module *graph, *train;
  bd_plan plan;
  BD_TRY(read_request(ctx, &job));
  check_target(ctx, &job);
  BD_TRY(check_tools(ctx, &job));
  BD_TRY(read_plan(ctx, &job));
  BD_TRY(bd_model_load(ctx, arguments->operand, &job.model, &graph));
  BD_TRY(bd_pass_run_list(ctx, "canonicalize,cse,dce", printed_pass(&job), stderr, graph, &graph));
  if (job.emit == EMIT_GRAPH) return write_module(ctx, graph, job.out);
  const char *passes =
      bd_training_passes(job.request.precision, job.request.masters, job.request.target);
  BD_TRY(bd_pass_run_list(ctx, passes, printed_pass(&job), stderr, graph, &train));
  if (job.emit == EMIT_TRAIN) return write_module(ctx, train, job.out);
  job.request.sequence = bd_module_sequence(graph);
  BD_TRY(make_plan(ctx, &job, train, &plan));
  bool searched = !bd_argument(arguments, "--plan");
  if (searched || job.emit == EMIT_PLAN || job.emit >= EMIT_C)
    BD_TRY(describe_plan(ctx, &job, train, &plan));
  if (job.emit == EMIT_PLAN) {
    bd_text text = bd_text_init(ctx->arena);
    bd_plan_print(&plan, train, &text);
    return bd_answer_write(ctx, &text, job.out);
  }
  return lower(ctx, &job, train, &plan);
}

static const bd_option options[] = {
    {"--cluster", "SPEC", "a cluster file, or PRESET:NODESxDEVICES"},
    {"--devices", "N", "or: N ranks of this machine (one of the two is needed)"},
    {"--memory-cap", "SIZE", "arena bytes a rank may use (default: what the cluster has)"},
    {"--global-batch", "N", "samples per step (needed, unless --plan or --partial says it)"},
    {"--seq", "N", "tokens per sample (default: the model's maximum)"},
    {"--samples", NULL, "train a model of token streams on samples with targets of their own"},
    {"--target", "cpu|cuda", "what the program runs on (default: what the cluster has)"},
    {"--precision", "fp32|bf16|fp16|fp8",
     "of weights and activations; fp8: bf16 with products in 8 bits (default fp32)"},
    {"--masters", "f32|none",
     "of weights in bf16; none: updates are rounded stochastically (default f32)"},
    {"--optimizer", "NAME", "adamw (default), adam, sgd, momentum or adafactor"},
    {"--plan", "FILE", "use this plan instead of searching"},
    {"--space", "default|full", "full: also what programs do not do yet; see docs/planner.md"},
    {"--time-limit", "SECONDS", "of the search (default 30)"},
    {"--threads", "N", "of the search, which gives the same plan with any (default: one a core)"},
    {"--solver", "glpk|cbc", "of integer programs (default glpk; cbc where it is built in)"},
    {"--verbose", NULL, "tell where the search stands, also where stderr is no terminal"},
    {"--stages", "N", "pin the number of pipeline stages"},
    {"--mesh", "AxB", "pin the mesh of a stage"},
    {"--micro-batch", "N", "pin the samples of one micro-batch"},
    {"--schedule", "NAME", "pin gpipe or 1f1b; with --space full interleaved or zero-bubble, too"},
    {"--zero", "0|1|2|3", "pin what is split over replicas: nothing, states, gradients, weights"},
    {"--recompute", "none|full", "pin what is recomputed"},
    {"--pin", "LIST", "pin more: dp=8,sp=1,tp=2,pp=4,mb=16,recompute=none,zero=1,schedule=1f1b"},
    {"--forbid", "LIST", "forbid values of dp, sp, tp, pp, mb, zero: tp=8,zero>1; or recompute"},
    {"--partial", "FILE", "keep what a partial plan says (docs/plan.md); search the rest"},
    {"--emit", "KIND", "graph, train, plan, sharded, spmd, exec, c or exe (default)"},
    {"--print-after", "PASS|all",
     "print the module after a pass or a step (apply-plan, ...), to stderr"},
    {"-o", "OUT", "output folder (c, exe; needed) or file (the others; default: standard output)"},
    {0},
};

const bd_command bd_command_compile = {
    .name = "compile",
    .summary = "plan a model on a cluster and build its training program",
    .operand = "MODEL",
    .needs = "(--cluster SPEC | --devices N) --global-batch N -o OUT",
    .options = options,
    .details =
        "MODEL is a preset (see 'braid presets'), a Hugging Face folder, or a JSON graph.\n\n"
        "example: braid compile gpt2-tiny --devices 4 --global-batch 8 -o out\n",
    .run = run,
};
