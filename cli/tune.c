// `braid tune`: plans, measures, plans again, and keeps the program that was fastest.
#include "cli/tune.h"
#include "cli/answer.h"
#include "cli/cuda_toolkit.h"
#include "cli/folder.h"
#include "cli/gpus.h"
#include "cli/planning.h"
#include "cli/stop.h"
#include "ir/base/clock.h"
#include "ir/base/file.h"
#include "ir/inputs.h"
#include "ir/plan_notes.h"
#include "planner/told/breakdown.h"
#include <math.h>
#include <string.h>

#define CLUSTER "cluster.json"
enum { LIMIT_SECONDS = 10, DOUBT_PERCENT = 10 }; // of a search; of predictions

static void remove_folder(void *path) {
  bd_folder_remove(path);
}

// Without data there is nothing to be read.
static bd_status check_tokenizer(bd_ctx *ctx, const bd_arguments *arguments) {
  static const char *const kinds[] = {"auto", "bytes", "u16", "u32", NULL};
  int kind = 0;
  BD_TRY(bd_argument_choice(ctx, arguments, "--tokenizer", kinds, &kind));
  if (!bd_argument(arguments, "--tokenizer") || bd_argument(arguments, "--data")) return BD_OK;
  return bd_usage_fail(ctx, arguments, "option '--tokenizer' goes with --data PATH");
}

static bd_status read_options(bd_ctx *ctx, const bd_arguments *arguments, bd_tuning *t) {
  double minutes = 0, doubt = DOUBT_PERCENT;
  t->tries = 8;
  t->training = (bd_training){.data = bd_argument(arguments, "--data"),
                              .tokenizer = bd_argument(arguments, "--tokenizer"),
                              .launcher = bd_argument(arguments, "--launcher"),
                              .steps = 10};
  BD_TRY(bd_argument_int(ctx, arguments, "--tries", 1, BD_MOST_TRIALS, &t->tries));
  BD_TRY(bd_argument_int(ctx, arguments, "--steps", 3, 100000, &t->training.steps));
  BD_TRY(bd_argument_real(ctx, arguments, "--within", 0, 1000, &doubt));
  BD_TRY(bd_argument_real(ctx, arguments, "--minutes", 0.01, 100000, &minutes));
  BD_TRY(check_tokenizer(ctx, arguments));
  t->doubt = 1 + doubt / 100;
  t->deadline = minutes > 0 ? bd_clock_seconds() + 60 * minutes : INFINITY;
  const char *launcher = t->training.launcher;
  if (launcher && !launcher[strspn(launcher, " \t\n")])
    return bd_usage_fail(ctx, arguments, "option '--launcher' wants a command, not blanks alone");
  if (t->training.data && !bd_file_exists(t->training.data))
    return bd_fail(ctx, BD_INVALID, bd_loc_file(t->training.data), "cannot be read");
  return BD_OK;
}

// What trials are built and started with, before anything is planned.
static bd_status check_tools(bd_ctx *ctx, const bd_compilation *job, const char *launcher) {
  const char *folder;
  BD_TRY(bd_compile_check_folder(ctx, job));
  BD_TRY(bd_compile_check_devices(ctx, job, &job->cluster));
  if (strcmp(job->request.target, "cuda") != 0) return BD_OK;
  BD_TRY(bd_cuda_toolkit_find(ctx, &folder));
  return launcher ? BD_OK : bd_gpus_check(ctx, bd_cluster_devices(&job->cluster));
}

// Tokens where the user gives no data: any will do. A model that embeds none has samples of another
// kind.
static bd_status make_data(bd_ctx *ctx, const bd_module *graph, bd_tuning *t) {
  int tokens = bd_input_find(graph, BD_INPUT_TOKENS);
  if (t->training.data) return BD_OK;
  int64_t vocabulary = tokens < 0 ? 0 : bd_input_indexes(graph, BD_OP_EMBED, tokens, false);
  if (vocabulary == 0)
    return bd_usage_fail(
        ctx, t->job->arguments,
        "--data PATH is missing: tokens can be made up, but this model embeds none");
  t->training.data = bd_path_join(ctx, t->folder, "data.bin");
  t->training.tokenizer = BD_TRIAL_TOKENIZER;
  return bd_trial_write_tokens(ctx, t->training.data, vocabulary, bd_module_sequence(graph));
}

// By what the choice may turn out faster than predicted: the best that a trial did, and some doubt.
static double least_seconds(const bd_tuning *t, const bd_choice *choice) {
  double luck = INFINITY;
  for (int i = 0; i < t->measured_count; i++)
    if (!t->measured[i].failure)
      luck = fmin(luck, t->measured[i].seconds / t->measured[i].told_seconds);
  return isfinite(luck) ? choice->seconds * luck / t->doubt : 0;
}

static void tell_trial(const bd_tuning *t, const bd_choice *choice) {
  fprintf(stderr, "trial %d: %s, micro-batch %lld, predicted %.4g s a step\n",
          t->measured_count + 1, choice->pins, (long long)choice->plan.micro_batch,
          choice->seconds);
}

static void tell_measured(const bd_measurement *m) {
  if (m->failure)
    fprintf(stderr, "  failed, %s\n", m->failure);
  else
    fprintf(stderr, "  measured %.4g s a step\n", m->seconds);
}

static bool is_over(const bd_tuning *t) {
  return t->measured_count == t->tries || bd_clock_seconds() >= t->deadline;
}

static bd_status try_choices(bd_tuning *t) {
  int next = 0;
  while (!is_over(t)) {
    BD_TRY(bd_tune_pick(t, &next));
    double best = t->best < 0 ? INFINITY : t->measured[t->best].seconds;
    if (next < 0 || is_over(t) || least_seconds(t, &t->choices[next]) >= best) return BD_OK;
    int rates = t->rates, before = t->best;
    tell_trial(t, &t->choices[next]);
    BD_TRY(bd_tune_measure(t, &t->choices[next]));
    tell_measured(&t->measured[t->measured_count - 1]);
    if (t->best != before) BD_TRY(bd_tune_add_neighbours(t, &t->measured[t->best]));
    if (t->rates > rates) BD_TRY(bd_tune_tell_again(t));
  }
  return BD_OK;
}

// The plan that is kept, with what the rates in hand tell of it.
static bd_status describe(bd_ctx *ctx, const bd_tuning *t, const bd_cluster *cluster,
                          bd_plan *plan) {
  BD_TRY(bd_plan_predict(ctx, t->train, cluster, plan));
  bd_tune_bound(ctx, t, &t->measured[t->best], plan);
  plan->cluster = CLUSTER; // beside it
  BD_TRY(bd_plan_note(ctx, t->train, plan));
  return bd_plan_break_down(ctx, t->train, cluster, plan);
}

static bd_status write_best(bd_ctx *ctx, const bd_tuning *t) {
  const bd_measurement *best = &t->measured[t->best];
  bd_plan plan = best->plan;
  bd_trial trial;
  bd_cluster rates = bd_tune_rates(t, best->parts);
  bd_text cluster = bd_text_init(ctx->arena), tuning = cluster, products = cluster;
  bd_cluster_print(&rates, &cluster);
  bd_tune_json(t, &tuning);
  if (best->products) bd_text_add(&products, best->products);
  const bd_build_file files[] = {
      {{CLUSTER, "the cluster with the rates that were measured"}, &cluster},
      {{"tuning.json", "what was tried, and how long its steps took"}, &tuning},
      {{"products.json", "algorithms of matrix products: ./train --tune products.json"},
       &products}};
  bd_build_options build = {.executable = true,
                            .earlier = t->earlier,
                            .file_count = best->products ? 3 : 2,
                            .files = files};
  BD_TRY(describe(ctx, t, &rates, &plan));
  return bd_trial_build(ctx, t->train, &plan, &build, t->job->out, &trial);
}

static bd_status tune_in(bd_ctx *ctx, const bd_module *graph, bd_tuning *t) {
  BD_TRY(make_data(ctx, graph, t));
  BD_TRY(bd_tune_list_choices(t));
  BD_TRY(try_choices(t));
  if (t->measured_count == 0)
    return bd_fail(ctx, BD_EXTERNAL, BD_NOWHERE,
                   "the --minutes were over before the first trial could begin; give more, or "
                   "searches a lower --time-limit");
  if (t->best < 0)
    return bd_fail(ctx, BD_EXTERNAL, BD_NOWHERE,
                   "no program that was tried ran to its end; the last one failed with %s",
                   t->measured[t->measured_count - 1].failure);
  return write_best(ctx, t);
}

static bd_status answer(bd_ctx *ctx, const bd_tuning *t) {
  bd_text text = bd_text_init(ctx->arena);
  bd_tune_page(t, &text);
  return bd_answer_write(ctx, &text, NULL);
}

static bd_status run(bd_ctx *ctx, const bd_arguments *arguments) {
  bd_compilation job = {.arguments = arguments};
  bd_tuning *t = BD_NEW(ctx->arena, bd_tuning);
  bd_module *graph, *train;
  job.request.limit_seconds = LIMIT_SECONDS;
  BD_TRY(bd_compile_read_request(ctx, &job));
  BD_TRY(read_options(ctx, arguments, t));
  BD_TRY(check_tools(ctx, &job, t->training.launcher));
  BD_TRY(bd_compile_load_graph(ctx, &job, &graph));
  BD_TRY(bd_compile_make_train(ctx, &job, graph, &train));
  BD_TRY(bd_compile_read_constraints(ctx, &job, train));
  BD_TRY(bd_planning_read(ctx, arguments, &job.request));
  t->ctx = ctx;
  t->job = &job;
  t->train = train;
  t->cluster = job.cluster;
  t->rows.least_seconds = INFINITY;
  t->best = -1;
  bd_stop_hold(NULL);
  BD_TRY(bd_folder_begin(ctx, job.out, &t->folder));
  bd_owned held;
  bd_own(ctx, &held, remove_folder, (char *)t->folder);
  bd_status status = tune_in(ctx, graph, t);
  bd_disown(ctx, &held);
  bd_folder_remove(t->folder);
  return status == BD_OK ? answer(ctx, t) : status;
}

static const bd_option options[] = {
    BD_OPTIONS_OF_PROGRAM,
    {"--tries", "N", "programs that are tried at most, 1 to 64 (default 8)"},
    {"--steps", "N", "of each, from 3 on (default 10)"},
    {"--within", "PERCENT",
     "by how much slower than the best a plan may be predicted to be tried (default 10)"},
    {"--minutes", "X", "no trial begins later than this (default: any time)"},
    {"--data", "PATH", "what to train on (default: tokens that are made up)"},
    {"--tokenizer", "KIND", "read the data as bytes, u16 or u32, whatever its name"},
    {"--launcher", "WORDS",
     "what starts the ranks, before the program's name: \"srun -n {ranks}\" (default: mpirun, on "
     "GPUs braid)"},
    {"--time-limit", "SECONDS", "of each search (default 10)"},
    BD_OPTIONS_OF_SEARCH,
    {"--schedule", "NAME", "pin gpipe or 1f1b"},
    BD_OPTIONS_OF_PINS,
    {"-o", "OUT", "output folder (needed)"},
    {0},
};

const bd_command bd_command_tune = {
    .name = "tune",
    .summary = "measure plans on this machine, plan again, and keep the fastest",
    .operand = "MODEL",
    .needs = "(--cluster SPEC | --devices N) --global-batch N -o OUT",
    .options = options,
    .reads = (const char *const[]){"--cluster", "--partial", "--data", NULL},
    .writes = (const char *const[]){"-o", NULL},
    .details = "Plans that may be the fastest are built and trained for a few steps, the most "
               "promising first.\nWhat their instructions took becomes the cluster's rates, by "
               "which is planned again: docs/tune.md.\nOUT is as of 'braid compile'; its "
               "cluster.json has the rates, its tuning.json what was tried. Let\nthe machine be "
               "quiet meanwhile.\n\nexample: braid tune gpt2-tiny --devices 2 --global-batch 8 -o "
               "out\n",
    .run = run,
};
