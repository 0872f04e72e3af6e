// What an op means beyond its loops: its gradient and its reference evaluation. One file per op (or
// small family) in ir/ops/ defines both; the table below is expanded from ops.def.
#ifndef BD_IR_OP_SEMANTICS_H
#define BD_IR_OP_SEMANTICS_H
#include "ir/index.h"

// A dense float64 tensor of the interpreter; integers are held exactly.
typedef struct bd_tensor {
  bd_type type; // no symbolic extent
  double *data;
} bd_tensor;

// Coordinates of the counter-based generator; site and call come from the op and the call.
typedef struct bd_random_key {
  uint64_t seed, step;
  int64_t first_sample; // global index of the micro-batch's first sample
  int call;             // index of the forward call in main
} bd_random_key;

// Evaluates results (allocated, zeroed) from operands. Asserts on what the verifier has checked.
typedef void (*bd_op_eval)(const bd_op *op, const bd_tensor *in, bd_tensor *out,
                           const bd_random_key *key, bd_arena *scratch);

// Appends to `backward` the ops that compute the operands' gradients. `value[v]` maps a value of
// the forward function to the backward parameter or value that holds it; `dout[i]` is the gradient
// of result i or BD_NO_ID. Writes `din[i]`, BD_NO_ID where operand i has no gradient (or need[i] is
// false).
typedef struct bd_gradient {
  const bd_function *forward;
  const bd_op *op;
  bd_function *backward;
  const bd_id *value;
  const bd_id *dout;
  const bool *need;
  bd_id *din;
} bd_gradient;
typedef bd_status (*bd_op_gradient)(bd_ctx *ctx, bd_gradient *gradient);

// NULL where an op has none (collectives, control, BD_NO_GRADIENT).
bd_op_eval bd_op_get_eval(bd_op_kind kind);
bd_op_gradient bd_op_get_gradient(bd_op_kind kind);
// Whether a gradient of the op's result 0 may give one of an operand: not where the attribute
// `constant` says that the result counts as one, nor of others than operand 0 with BD_GRADIENT_0.
bool bd_op_gives_gradient(const bd_op *op, int operand);
#endif
