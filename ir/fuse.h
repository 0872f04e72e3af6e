// Which ops of an spmd function run as one kernel. Decided before memory is counted, so that values
// that only live in registers cost no bytes in plan and program alike.
#ifndef BD_IR_FUSE_H
#define BD_IR_FUSE_H
#include "ir/module.h"

typedef struct bd_fusion {
  int step_count; // steps run in order; each is a fused run of pointwise ops or one other op
  int *first_op;  // per step
  int *step_ops;  // per step: how many ops, contiguous
  bool *inner;    // per value: made and consumed inside one step, never in memory
} bd_fusion;

// Whether results of two pointwise ops have the same points, and types that one kernel holds:
// floats of one width, and whatever integers and bools.
bool bd_fuse_types(const bd_type *a, const bd_type *b);

// Whether an op and the one before it are pointwise and their results have such types: one kernel
// may do both, wherever these lie alike.
bool bd_fuse_joins(const bd_function *function, int op);

// Greedy over op order: a pointwise op joins the step before it when that is pointwise as well and
// their results have such types and the same sharding.
void bd_fuse(bd_ctx *ctx, const bd_module *module, const bd_function *function,
             bd_fusion *out_fusion);

// Whether result i of the (backward) function is a weight's gradient accumulator: the step that
// makes it adds to what is there.
bool bd_accumulates(const bd_function *function, bd_id value);
#endif
