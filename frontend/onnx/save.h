// The weights of an imported model as a file that programs start from.
#ifndef BD_FRONTEND_ONNX_SAVE_H
#define BD_FRONTEND_ONNX_SAVE_H
#include "frontend/onnx/model.h"
#include "ir/module.h"

// Writes the initializers that `graph` has as weights to a safetensors file of f32, under their own
// names, piece by piece. `is_stopped` is asked before each: true ends it with no file. Errors:
// BD_INVALID and BD_EXTERNAL naming the file; the latter without a word when stopped.
BD_NODISCARD bd_status bd_onnx_save_weights(bd_ctx *ctx, const bd_onnx_model *model,
                                            const bd_module *graph, bool (*is_stopped)(void),
                                            const char *path);
#endif
