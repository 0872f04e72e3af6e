// Types, shapes and small values of everything in an ONNX model, in one walk over its nodes.
#ifndef BD_FRONTEND_ONNX_INFER_H
#define BD_FRONTEND_ONNX_INFER_H
#include "frontend/onnx/fact.h"

// A number for a symbolic extent, or contents for an input.
typedef struct bd_onnx_dim {
  const char *symbol;
  int64_t extent;
} bd_onnx_dim;

typedef struct bd_onnx_given {
  const char *input;
  const bd_onnx_tensor *tensor; // its shape becomes the input's
  bool elements;                // so do its elements
} bd_onnx_given;

typedef struct bd_onnx_options {
  int64_t sequence;  // extent of symbols with a usual name for it (seq, sequence_length..); 0: none
  const char *batch; // the symbol that is the batch; NULL: that of the inputs' first dimension
  int dim_count, given_count;
  const bd_onnx_dim *dims;
  const bd_onnx_given *given;
} bd_onnx_options;

// A fact per value of the model, in ctx->arena.
// Errors: BD_INVALID for a model that contradicts itself or the standard, BD_UNSUPPORTED for ops,
// versions and shapes that braid does not handle; each names the node, and what to do.
BD_NODISCARD bd_status bd_onnx_infer(bd_ctx *ctx, const bd_onnx_model *model,
                                     const bd_onnx_options *options, bd_onnx_fact **out_facts);

// Per value of the model: whether a shape depends on its elements, so that an input must be given
// with them. In ctx->arena.
const bool *bd_onnx_wanted(bd_ctx *ctx, const bd_onnx_model *model);

// The newest operator set whose versions of the ops are known.
#define BD_ONNX_NEWEST_OPSET 20
#endif
