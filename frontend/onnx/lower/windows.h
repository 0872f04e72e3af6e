// Windows that slide, and what their lowering shares.
#ifndef BD_FRONTEND_ONNX_LOWER_WINDOWS_H
#define BD_FRONTEND_ONNX_LOWER_WINDOWS_H
#include "frontend/onnx/infer/window.h"
#include "frontend/onnx/lower/layout.h"

// Operand `i` with one dimension of the graph for each of the model's, also of extent 1.
BD_NODISCARD bd_status bd_onnx_exact(bd_onnx_lowering *l, const bd_onnx_step *step, int i,
                                     bd_id *out);
// A value with one dimension of the graph for each of the model's result 0, and its layout.
BD_NODISCARD bd_status bd_onnx_from_exact(bd_onnx_lowering *l, const bd_onnx_step *step, bd_id made,
                                          bd_onnx_part *out);

// x [.., s..] as [.., k, windows..]; `outside` stands for what is not in x.
BD_NODISCARD bd_status bd_onnx_unfold(bd_onnx_lowering *l, const bd_onnx_window *window,
                                      double outside, bd_id x, bd_id *out);
// A pool that gives out both its maxima and their places in the operand. `lowest`: nothing is less.
BD_NODISCARD bd_status bd_onnx_argmax_pool(bd_onnx_lowering *l, const bd_onnx_step *step,
                                           const bd_onnx_window *window, double lowest);
#endif
