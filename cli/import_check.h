// `braid import --check`: an ONNX model run once, on the interpreter and as generated code.
#ifndef BD_CLI_IMPORT_CHECK_H
#define BD_CLI_IMPORT_CHECK_H
#include "frontend/onnx/lower.h"

// Runs the model with its own weights on samples that are always the same, and prints for each
// output by how much the two differ. Errors: BD_INTERNAL when they differ by more than f32
// explains; BD_UNSUPPORTED for models whose values this machine cannot hold; BD_EXTERNAL when the
// program cannot be built or run.
BD_NODISCARD bd_status bd_import_check(bd_ctx *ctx, const bd_onnx_model *model,
                                       bd_onnx_fact *facts);
#endif
