// The attributes that convolutions and pools share, checked and completed.
#ifndef BD_FRONTEND_ONNX_INFER_WINDOW_H
#define BD_FRONTEND_ONNX_INFER_WINDOW_H
#include "frontend/onnx/infer/step.h"

// Per dimension after batch and channels.
typedef struct bd_onnx_window {
  int rank;
  bool same; // auto_pad asks for as many results as strides
  int64_t size[BD_MAX_RANK], stride[BD_MAX_RANK], dilation[BD_MAX_RANK];
  int64_t before[BD_MAX_RANK], after[BD_MAX_RANK]; // padding; negative: cropped
} bd_onnx_window;

// `kernel`: the extents of a convolution's kernel, or NULL where kernel_shape must give the size.
// Errors: BD_INVALID for sizes out of range, or a batch among the dimensions that windows slide
// over.
BD_NODISCARD bd_status bd_onnx_window_read(const bd_onnx_step *step, const bd_onnx_number *kernel,
                                           bd_onnx_window *out_window);
#endif
