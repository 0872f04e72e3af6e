// Elements that are moved, not computed: where each element of a result comes from.
#ifndef BD_FRONTEND_ONNX_INFER_VIEW_H
#define BD_FRONTEND_ONNX_INFER_VIEW_H
#include "frontend/onnx/infer/step.h"

// Per dimension of the result: element `at` comes from start + (at mod period) * step, and the sum
// over the dimensions is the number of the operand's element.
typedef struct bd_onnx_view {
  int64_t start;
  int64_t period[BD_MAX_RANK], step[BD_MAX_RANK];
} bd_onnx_view;

// Elements between neighbours along each dimension of a plain shape.
void bd_onnx_strides(const bd_onnx_fact *fact, int64_t out_strides[BD_MAX_RANK]);

// Fills result `i` with operand 0's elements as the view says. Both are plain and known.
void bd_onnx_fold_view(bd_onnx_step *step, int i, const bd_onnx_view *view);

// Whether moved elements can be folded; a uniform operand's result is made uniform at once.
BD_NODISCARD bd_status bd_onnx_can_move(bd_onnx_step *step, int results, bool *out);
#endif
