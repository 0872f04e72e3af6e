// The equation of an Einsum: a letter per dimension of each operand and of the result.
#ifndef BD_FRONTEND_ONNX_INFER_EINSUM_H
#define BD_FRONTEND_ONNX_INFER_EINSUM_H
#include "frontend/onnx/infer/step.h"

enum { BD_ONNX_EINSUM_OPERANDS = 16 };

// Dimensions under an ellipsis have the letters '0' (the last one), '1', ...
typedef struct bd_onnx_einsum {
  int count; // operands
  int rank[BD_ONNX_EINSUM_OPERANDS];
  char in[BD_ONNX_EINSUM_OPERANDS][BD_MAX_RANK];
  int out_rank;
  char out[BD_MAX_RANK];
  bd_onnx_number extent['z' + 1]; // of each letter that occurs
} bd_onnx_einsum;

// Reads the equation and holds it against the operands. Without "->", the result has the letters
// that occur once, in their order. Errors: BD_INVALID.
BD_NODISCARD bd_status bd_onnx_einsum_read(const bd_onnx_step *step, bd_onnx_einsum *out_sum);
#endif
