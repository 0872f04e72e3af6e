// `braid compile`: model and cluster to plan, sources and executable.
#include "cli/compile.h"
#include "cli/answer.h"
#include "cli/build.h"
#include "cli/cuda_toolkit.h"
#include "cli/stop.h"
#include "codegen/codegen.h"
#include "ir/base/file.h"
#include "ir/pass.h"
#include "ir/plan_details.h"
#include "ir/routing.h"
#include <math.h>
#include <string.h>

static bd_status write_module(bd_ctx *ctx, const bd_module *module, const char *path) {
  bd_text text = bd_text_init(ctx->arena);
  bd_module_print(module, &text);
  return bd_answer_write(ctx, &text, path);
}

static void print_stage(bd_ctx *ctx, const bd_compilation *job, const bd_module *module,
                        const char *pass) {
  if (!job->print_after || (strcmp(job->print_after, "all") && strcmp(job->print_after, pass)))
    return;
  bd_text text = bd_text_init(ctx->arena);
  bd_module_print(module, &text);
  fprintf(stderr, "// after %s\n%s", pass, text.data);
}

// After the plan: sharded, spmd, exec, and the folder.
static bd_status lower(bd_ctx *ctx, const bd_compilation *job, const bd_module *train,
                       const bd_plan *plan) {
  bd_module *sharded, *spmd, *exec;
  bd_cluster used;
  BD_TRY(bd_plan_emitted(ctx, plan));
  bd_cluster_part(ctx, &job->cluster, 0, bd_plan_ranks(plan), &used);
  BD_TRY(bd_compile_check_devices(ctx, job, &used));
  BD_TRY(bd_apply_plan(ctx, train, plan, &sharded));
  BD_TRY(bd_module_verify(ctx, sharded));
  print_stage(ctx, job, sharded, "apply-plan");
  if (job->emit == BD_EMIT_SHARDED) return write_module(ctx, sharded, job->out);
  BD_TRY(bd_partition(ctx, sharded, &spmd));
  BD_TRY(bd_module_verify(ctx, spmd));
  print_stage(ctx, job, spmd, "partition");
  if (job->emit == BD_EMIT_SPMD) return write_module(ctx, spmd, job->out);
  BD_TRY(bd_lower_exec(ctx, spmd, plan, &exec));
  BD_TRY(bd_module_verify(ctx, exec));
  print_stage(ctx, job, exec, "lower-exec");
  if (job->emit == BD_EMIT_EXEC) return write_module(ctx, exec, job->out);
  bd_stop_hold(NULL);
  bd_build_options build = {.executable = job->emit == BD_EMIT_EXE};
  return bd_build_folder(ctx, train, exec, plan, &build, job->out);
}

// What writing and building will need is looked for before the search.
static bd_status check_tools(bd_ctx *ctx, const bd_compilation *job) {
  const char *folder;
  if (job->emit >= BD_EMIT_C)
    BD_TRY(bd_compile_check_folder(ctx, job));
  else if (job->out)
    return bd_answer_check_place(ctx, job->out);
  if (job->emit != BD_EMIT_EXE || bd_argument(job->arguments, "--plan") ||
      strcmp(job->request.target, "cuda"))
    return BD_OK;
  return bd_cuda_toolkit_find(ctx, &folder);
}

// All places are computed with, whether a token sits there or not.
static void tell_spare_places(bd_ctx *ctx, const bd_module *graph) {
  double spare = 0;
  for (int f = 0; f < graph->function_count; f++)
    spare = fmax(spare, bd_routing_spare(graph->functions[f]));
  if (spare > 1)
    bd_note(
        ctx, BD_NOWHERE,
        "every expert has room for all tokens of a sample, and computes with %.3g times what "
        "chooses it; less \"expert_capacity\" in config.json, or 'braid import --expert-capacity', "
        "gives it less, and what finds no place passes the expert by; without the member an "
        "expert computes with what chooses it alone",
        spare);
}

// Then fp8 is bf16.
static void tell_no_float8(bd_ctx *ctx, const bd_plan *plan) {
  const bd_plan_details *details = plan->details;
  if (details && details->marked_products && !details->float8_products)
    bd_note(ctx, BD_NOWHERE,
            "no product of this model takes less in 8 bits on these devices, so all of them are "
            "computed in bf16");
}

static bd_status run(bd_ctx *ctx, const bd_arguments *arguments) {
  bd_compilation job = {.arguments = arguments};
  bd_module *graph, *train;
  bd_plan plan;
  BD_TRY(bd_compile_read_request(ctx, &job));
  BD_TRY(check_tools(ctx, &job));
  BD_TRY(bd_compile_read_plan(ctx, &job));
  // A plan that is given may leave devices idle; one is searched for all.
  if (!bd_argument(arguments, "--plan")) BD_TRY(bd_compile_check_devices(ctx, &job, &job.cluster));
  BD_TRY(bd_compile_load_graph(ctx, &job, &graph));
  if (job.emit == BD_EMIT_GRAPH) return write_module(ctx, graph, job.out);
  BD_TRY(bd_compile_make_train(ctx, &job, graph, &train));
  if (job.emit == BD_EMIT_TRAIN) return write_module(ctx, train, job.out);
  BD_TRY(bd_compile_make_plan(ctx, &job, train, &plan));
  bool searched = !bd_argument(arguments, "--plan");
  if (searched || job.emit == BD_EMIT_PLAN || job.emit >= BD_EMIT_C)
    BD_TRY(bd_compile_describe_plan(ctx, &job, train, &plan));
  if (searched) tell_spare_places(ctx, graph);
  if (searched) tell_no_float8(ctx, &plan);
  if (job.emit == BD_EMIT_PLAN) {
    bd_text text = bd_text_init(ctx->arena);
    bd_plan_print(&plan, train, &text);
    return bd_answer_write(ctx, &text, job.out);
  }
  return lower(ctx, &job, train, &plan);
}

static const bd_option options[] = {
    BD_OPTIONS_OF_PROGRAM,
    {"--plan", "FILE", "use this plan instead of searching"},
    {"--space", "default|full", "full: also what programs do not do yet; see docs/planner.md"},
    {"--time-limit", "SECONDS", "of the search (default 30)"},
    BD_OPTIONS_OF_SEARCH,
    {"--verbose", NULL, "tell where the search stands, also where stderr is no terminal"},
    {"--schedule", "NAME", "pin gpipe or 1f1b; with --space full interleaved or zero-bubble, too"},
    BD_OPTIONS_OF_PINS,
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
    .reads = (const char *const[]){"--cluster", "--plan", "--partial", NULL},
    .writes = (const char *const[]){"-o", NULL},
    .details =
        "MODEL is a preset (see 'braid presets'), a Hugging Face folder, a JSON graph, or a graph "
        "as\ntext (FILE.braid, as --emit graph and 'braid import' write it).\n\n"
        "example: braid compile gpt2-tiny --devices 4 --global-batch 8 -o out\n",
    .run = run,
};
