// What `braid compile` and `braid tune` are asked for, and the plan that it leads to.
#ifndef BD_CLI_COMPILE_H
#define BD_CLI_COMPILE_H
#include "cli/command.h"
#include "frontend/frontend.h"
#include "planner/planner.h"

// Options, for tables of bd_option.

// What a program is asked to be, for whatever makes programs.
#define BD_OPTIONS_OF_PROGRAM                                                                      \
  {"--cluster", "SPEC", "a cluster file, or PRESET:NODESxDEVICES"},                                \
      {"--devices", "N", "or: N ranks of this machine (one of the two is needed)"},                \
      {"--memory-cap", "SIZE", "arena bytes a rank may use (default: what the cluster has)"},      \
      {"--global-batch", "N", "samples per step (needed, unless a plan that is given says it)"},   \
      {"--seq", "N", "tokens per sample (default: a given plan's, or the model's maximum)"},       \
      {"--samples", NULL, "train a model of token streams on samples with targets of their own"},  \
      {"--target", "cpu|cuda", "what the program runs on (default: what the cluster has)"},        \
      {"--precision", "fp32|bf16|fp16|fp8",                                                        \
       "of weights and activations; fp8: bf16, products in 8 bits where that pays (default "       \
       "fp32)"},                                                                                   \
      {"--masters", "f32|none",                                                                    \
       "of weights in bf16; none: updates are rounded stochastically (default f32)"},              \
      {"--gradients", "f32|bf16",                                                                  \
       "what gradients of weights without masters are added up in (default f32)"},                 \
  {                                                                                                \
    "--optimizer", "NAME", "adamw (default), adam, sgd, momentum or adafactor"                     \
  }
// How it is searched for.
#define BD_OPTIONS_OF_SEARCH                                                                       \
  {"--threads", "N", "of the search, which gives the same plan with any (default: one a core)"}, { \
    "--solver", "glpk|cbc", "of integer programs (default glpk; cbc where it is built in)"         \
  }
// What is fixed of it.
#define BD_OPTIONS_OF_PINS                                                                         \
  {"--stages", "N", "pin the number of pipeline stages"},                                          \
      {"--mesh", "AxB", "pin the mesh of a stage"},                                                \
      {"--micro-batch", "N", "pin the samples of one micro-batch"},                                \
      {"--zero", "0|1|2|3",                                                                        \
       "pin what is split over replicas: nothing, states, gradients, weights"},                    \
      {"--recompute", "none|full", "pin what is recomputed"},                                      \
      {"--pin", "LIST",                                                                            \
       "pin more: dp=8,sp=1,tp=2,pp=4,mb=16,recompute=none,zero=1,schedule=1f1b"},                 \
      {"--forbid", "LIST",                                                                         \
       "forbid values of dp, sp, tp, pp, mb, zero: tp=8,zero>1; or recompute"},                    \
  {                                                                                                \
    "--partial", "FILE", "keep what a partial plan says (docs/plan.md); search the rest"           \
  }

typedef enum bd_emit_kind {
  BD_EMIT_GRAPH,
  BD_EMIT_TRAIN,
  BD_EMIT_PLAN,
  BD_EMIT_SHARDED,
  BD_EMIT_SPMD,
  BD_EMIT_EXEC,
  BD_EMIT_C,
  BD_EMIT_EXE
} bd_emit_kind;

typedef struct bd_compilation {
  const bd_arguments *arguments;
  bd_emit_kind emit;
  const char *out, *print_after;
  const char *target; // as given, or NULL
  bd_model_options model;
  bd_cluster cluster;
  bd_plan_request request;
  bd_constraints constraints; // of the request
  char *plan_data;            // of --plan
  size_t plan_bytes;
} bd_compilation;

// Whether this is a step that needs a plan, whose module --print-after shows as well; NULL is none.
bool bd_compile_is_step(const char *name);

// Everything that the arguments say but --plan and constraints; `arguments` is set, and the time
// limit of the request where the command has one of its own. Warns where the program is for other
// devices than the cluster's.
BD_NODISCARD bd_status bd_compile_read_request(bd_ctx *ctx, bd_compilation *out_job);
// Whether the folder of -o can be made, and the cluster file does not lie in the one that it
// replaces. Errors: wrong usage; those of bd_folder_check.
BD_NODISCARD bd_status bd_compile_check_folder(bd_ctx *ctx, const bd_compilation *job);
// Whether a program that is made for GPUs runs on `devices`; one for CPUs is made beside any.
BD_NODISCARD bd_status bd_compile_check_devices(bd_ctx *ctx, const bd_compilation *job,
                                                const bd_cluster *devices);
// Programs do not run every schedule; refuses one that is only planned.
BD_NODISCARD bd_status bd_compile_check_schedule(bd_ctx *ctx, const bd_compilation *job);

// The model's graph, whose sequence the request takes; and the training module of that.
BD_NODISCARD bd_status bd_compile_load_graph(bd_ctx *ctx, bd_compilation *job,
                                             bd_module **out_graph);
BD_NODISCARD bd_status bd_compile_make_train(bd_ctx *ctx, const bd_compilation *job,
                                             bd_module *graph, bd_module **out_train);

// The options that need the training module: --pin, --forbid, --partial; with them the request is
// whole. Errors: wrong usage; those of the partial plan.
BD_NODISCARD bd_status bd_compile_read_constraints(bd_ctx *ctx, bd_compilation *job,
                                                   const bd_module *train);

// Reads --plan, if it is given. The plan names its precision and its target, which the training
// module must be for before the plan can be read in full.
BD_NODISCARD bd_status bd_compile_read_plan(bd_ctx *ctx, bd_compilation *job);
// The plan that is given, or the best one.
BD_NODISCARD bd_status bd_compile_make_plan(bd_ctx *ctx, bd_compilation *job,
                                            const bd_module *train, bd_plan *out_plan);
// What the plan file tells its readers beside the plan.
BD_NODISCARD bd_status bd_compile_describe_plan(bd_ctx *ctx, const bd_compilation *job,
                                                const bd_module *train, bd_plan *plan);
#endif
