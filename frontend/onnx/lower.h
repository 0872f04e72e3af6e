// From an ONNX model, whose types and shapes are inferred, to a graph: one flat function that main
// calls, its weights named as the model's initializers.
#ifndef BD_FRONTEND_ONNX_LOWER_H
#define BD_FRONTEND_ONNX_LOWER_H
#include "frontend/onnx/infer.h"
#include "ir/module.h"

typedef enum bd_onnx_loss {
  BD_ONNX_LOSS_OWN,           // an output of the model
  BD_ONNX_LOSS_CROSS_ENTROPY, // of the first output's last dimension, with targets as another input
  BD_ONNX_LOSS_DICE,          // of the first output's second dimension, likewise
} bd_onnx_loss;

// The module lives in ctx->arena and needs nothing of the model. What is known beforehand is
// folded; elements that lowering looks at are kept in `facts`. Errors: BD_UNSUPPORTED for what
// braid's graph cannot say, naming the node; BD_INVALID for a model without a loss.
BD_NODISCARD bd_status bd_onnx_lower(bd_ctx *ctx, const bd_onnx_model *model, bd_onnx_fact *facts,
                                     bd_onnx_loss loss, bd_module **out_graph);
// The model as one function that is not called: its results are the model's outputs that are not
// known beforehand, in order. For running it on the interpreter: extents may all be numbers, and
// inputs have the model's types.
typedef struct bd_onnx_program {
  const bd_module *module;
  const bd_function *function;
  const int *params;  // per parameter of the function, the model's value that it holds
  const int *results; // per result, the place among the model's outputs
} bd_onnx_program;
BD_NODISCARD bd_status bd_onnx_lower_function(bd_ctx *ctx, const bd_onnx_model *model,
                                              bd_onnx_fact *facts, bd_onnx_program *out_program);
#endif
