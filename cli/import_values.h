// What a model that is checked is run on: its weights, and made-up samples.
#ifndef BD_CLI_IMPORT_VALUES_H
#define BD_CLI_IMPORT_VALUES_H
#include "frontend/onnx/lower.h"
#include "ir/interpret.h"

// The parameters of the program's function, B being `batch`, in ctx->arena. Reals of inputs are
// uniform in [-1, 1); integers lie in what they index, else they are 0 or 1.
BD_NODISCARD bd_status bd_import_values(bd_ctx *ctx, const bd_onnx_model *model,
                                        const bd_onnx_program *program, int64_t batch,
                                        bd_tensor **out_values);
// The parameters of a graph's main: `inputs`, as many as it has, or where that is NULL made-up ones
// for `flat`, which is that main; then its weights, of the model's initializers.
BD_NODISCARD bd_status bd_import_graph_values(bd_ctx *ctx, const bd_onnx_model *model,
                                              const bd_module *graph, const bd_function *flat,
                                              int64_t batch, const bd_tensor *inputs,
                                              bd_tensor **out_values);
#endif
