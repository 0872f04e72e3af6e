// `braid import`: reads an ONNX model, prints what was recognised, and writes it as a graph.
#include "cli/answer.h"
#include "cli/import_check.h"
#include "cli/import_graph.h"
#include "cli/outputs.h"
#include "cli/stop.h"
#include "frontend/onnx/lower.h"
#include "frontend/onnx/save.h"
#include "frontend/onnx/summary.h"
#include "ir/base/number.h"
#include "ir/pass.h"
#include "ir/passes/recover/recover.h"
#include "ir/routing.h"
#include <string.h>

// "batch=8,seq=128": a number per symbol.
static bd_status read_dims(bd_ctx *ctx, const bd_arguments *arguments, bd_onnx_options *options) {
  const char *text = bd_argument(arguments, "--dim");
  if (!text) return BD_OK;
  bd_onnx_dim *dims = BD_NEW_ARRAY(ctx->arena, bd_onnx_dim, strlen(text) + 1);
  options->dims = dims;
  for (const char *at = text;;) {
    size_t length = strcspn(at, ","), name = strcspn(at, "=");
    bd_onnx_dim *dim = &dims[options->dim_count++];
    dim->symbol = bd_intern(ctx, at, name < length ? name : 0);
    const char *number = name < length ? bd_intern(ctx, at + name + 1, length - name - 1) : "";
    if (!dim->symbol[0] || !bd_whole_read(number, &dim->extent) || dim->extent < 1 ||
        dim->extent > BD_MAX_ELEMENTS)
      return bd_usage_fail(ctx, arguments, "--dim: '%s' is not NAME=N[,NAME=N], N from 1 to 2^46",
                           text);
    if (!at[length]) return BD_OK;
    at += length + 1;
  }
}

// What is written takes the place of none of the model's external data.
static bd_status check_data(bd_ctx *ctx, const bd_arguments *arguments,
                            const bd_onnx_model *model) {
  const char *last = "";
  for (int i = 0; i < model->value_count; i++) {
    const bd_onnx_tensor *tensor = model->values[i].initializer;
    if (!tensor || !tensor->location || strcmp(tensor->location, last) == 0) continue;
    last = tensor->location;
    BD_TRY(bd_outputs_check_input(ctx, arguments, "the model's data",
                                  bd_path_join(ctx, model->folder, last)));
  }
  return BD_OK;
}

// What the graph is to be.
typedef struct wishes {
  int loss; // a bd_onnx_loss
  bd_recover_options recovery;
} wishes;

static bd_status read_wishes(bd_ctx *ctx, const bd_arguments *arguments, wishes *out) {
  static const char *const losses[] = {"own", "cross-entropy", "dice", NULL};
  const char *graph = bd_argument(arguments, "-o"), *weights = bd_argument(arguments, "--weights");
  *out = (wishes){.loss = BD_ONNX_LOSS_OWN};
  BD_TRY(bd_argument_choice(ctx, arguments, "--loss", losses, &out->loss));
  BD_TRY(bd_argument_int(ctx, arguments, "--expert-capacity", 1, 1 << 24,
                         &out->recovery.expert_capacity));
  if (weights && !graph)
    return bd_usage_fail(ctx, arguments, "--weights needs -o: the graph that the weights are of");
  if (weights && bd_file_is_one(weights, graph))
    return bd_usage_fail(ctx, arguments, "-o and --weights are one file, '%s'", graph);
  return BD_OK;
}

static bool has_experts(const bd_module *graph) {
  for (int f = 0; f < graph->function_count; f++)
    if (bd_routing_count(graph->functions[f]) > 0) return true;
  return false;
}

// The model as layers, tidied and with what was recovered.
static bd_status find_layers(bd_ctx *ctx, const bd_arguments *arguments, const wishes *wanted,
                             bd_module **graph) {
  BD_TRY(bd_pass_run_list(ctx, "canonicalize,cse,dce", NULL, stderr, *graph, graph));
  if (!bd_argument_flag(arguments, "--no-recover")) {
    BD_TRY(bd_recover(ctx, &wanted->recovery, *graph, graph));
    BD_TRY(bd_module_verify(ctx, *graph));
  }
  if (wanted->recovery.expert_capacity > 0 && !has_experts(*graph))
    return bd_usage_fail(ctx, arguments, "--expert-capacity: no experts were found in the model");
  return bd_pass_run_list(ctx, "canonicalize,localize,outline-repeats,cse,dce", NULL, stderr,
                          *graph, graph);
}

static bool is_stopped(void) {
  return bd_stop_came() != 0;
}

static bd_status write_weights(bd_ctx *ctx, const bd_onnx_model *model, const bd_module *graph,
                               const char *path) {
  sigset_t mask;
  bd_stop_hold(&mask);
  bd_status status = bd_onnx_save_weights(ctx, model, graph, is_stopped, path);
  bd_stop_release(&mask);
  return status;
}

static bd_status write_graph(bd_ctx *ctx, const bd_arguments *arguments, const bd_onnx_model *model,
                             bd_onnx_fact *facts, const wishes *wanted,
                             bd_import_graphs *out_graphs) {
  const char *weights = bd_argument(arguments, "--weights");
  bd_module *graph;
  BD_TRY(check_data(ctx, arguments, model));
  BD_TRY(bd_answer_check_place(ctx, bd_argument(arguments, "-o")));
  if (weights) BD_TRY(bd_answer_check_place(ctx, weights));
  BD_TRY(bd_onnx_lower(ctx, model, facts, (bd_onnx_loss)wanted->loss, &graph));
  BD_TRY(bd_module_verify(ctx, graph));
  out_graphs->lowered = graph;
  BD_TRY(find_layers(ctx, arguments, wanted, &graph));
  bd_text text = bd_text_init(ctx->arena);
  bd_module_print(graph, &text);
  BD_TRY(bd_answer_write(ctx, &text, bd_argument(arguments, "-o")));
  out_graphs->written = graph;
  BD_TRY(bd_import_describe(ctx, out_graphs->lowered, graph));
  return weights ? write_weights(ctx, model, graph, weights) : BD_OK;
}

static bd_status import(bd_ctx *ctx, const bd_arguments *arguments, const bd_onnx_model *model,
                        const bd_onnx_options *options, const wishes *wanted) {
  bd_onnx_fact *facts;
  bd_import_graphs graphs = {NULL, NULL};
  BD_TRY(bd_onnx_infer(ctx, model, options, &facts));
  bd_text text = bd_text_init(ctx->arena);
  bd_onnx_summarize(ctx, model, facts, &text);
  BD_TRY(bd_answer_write(ctx, &text, NULL));
  if (bd_argument(arguments, "-o"))
    BD_TRY(write_graph(ctx, arguments, model, facts, wanted, &graphs));
  if (!bd_argument_flag(arguments, "--check")) return BD_OK;
  return bd_import_check(ctx, model, facts, &graphs);
}

static bd_status run(bd_ctx *ctx, const bd_arguments *arguments) {
  bd_onnx_options options = {.batch = bd_argument(arguments, "--batch-dim")};
  BD_TRY(bd_argument_int(ctx, arguments, "--seq", 1, 1 << 24, &options.sequence));
  BD_TRY(read_dims(ctx, arguments, &options));
  wishes wanted;
  BD_TRY(read_wishes(ctx, arguments, &wanted));
  bd_onnx_model model = {0};
  bd_owned held;
  bd_own(ctx, &held, bd_onnx_close, &model);
  bd_status status = bd_onnx_open(ctx, arguments->operand, &model);
  if (status == BD_OK) status = import(ctx, arguments, &model, &options, &wanted);
  bd_disown(ctx, &held);
  bd_onnx_close(&model);
  return status;
}

static const bd_option options[] = {
    {"--seq", "N", "tokens per sample, for symbols named as a sequence's length"},
    {"--dim", "NAME=N,..", "numbers for other symbolic extents"},
    {"--batch-dim", "NAME",
     "the symbol that is the batch (default: of the inputs' first dimension)"},
    {"--loss", "own|cross-entropy|dice",
     "the model's own loss (default), or one of its first output's last dimension, or second"},
    {"-o", "FILE", "write the model as a graph (.braid), which 'braid compile' takes"},
    {"--check", NULL, "run it once on the interpreter and as generated code, and compare"},
    {"--expert-capacity", "N",
     "tokens of a sample that an expert takes at most, first choices first (default: all)"},
    {"--no-recover", NULL, "keep the primitives that layers are written out in"},
    {"--weights", "FILE", "write its weights to a safetensors file, for 'braid run --init'"},
    {0},
};
const bd_command bd_command_import = {
    .name = "import",
    .summary = "read an ONNX model and print what it is made of",
    .operand = "MODEL",
    .options = options,
    .writes = (const char *const[]){"-o", "--weights", NULL},
    .details =
        "MODEL is an .onnx file of operator sets 6 to 20; its external data lies beside it.\n"
        "docs/onnx.md says what is read, followed and refused.\n\n"
        "example: braid import gpt2.onnx --seq 128\n",
    .run = run,
};
