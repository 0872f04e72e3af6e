// Reductions that are no sums of floats.
#ifndef BD_IR_OPS_REDUCE_H
#define BD_IR_OPS_REDUCE_H
#include "ir/ops/pointwise.h"

// Joins the elements of in[0] that the op's rule sends to one of the result, by the op's kind; sums
// of integers only.
void bd_eval_reduce(const bd_op *op, const bd_tensor *in, bd_tensor *out, bd_arena *scratch);

// The op's rule "abc->cab" turned round: "cab->abc".
bd_attr bd_gradient_reversed_rule(bd_ctx *ctx, const bd_op *op);
#endif
