// `braid import --check`: an ONNX model run once, on the interpreter and as generated code.
#ifndef BD_CLI_IMPORT_CHECK_H
#define BD_CLI_IMPORT_CHECK_H
#include "frontend/onnx/lower.h"

// The graph of a model with a loss, as it is lowered and as it is written: with passes run on it.
typedef struct bd_import_graphs {
  const bd_module *lowered, *written; // NULL: there is none
} bd_import_graphs;

// Runs the model with its own weights on samples that are always the same, and prints for each
// output, and for the loss where there are graphs, by how much generated code differs from the
// interpreter: of the loss, what is written from what was lowered. Errors: BD_INTERNAL when they
// differ by more than f32 explains; BD_UNSUPPORTED for models whose values this machine cannot
// hold; BD_EXTERNAL when the program cannot be built or run.
BD_NODISCARD bd_status bd_import_check(bd_ctx *ctx, const bd_onnx_model *model, bd_onnx_fact *facts,
                                       const bd_import_graphs *graphs);
#endif
