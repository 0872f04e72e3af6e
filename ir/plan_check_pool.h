// A part of bd_plan_check: values that count over the samples of a rank.
#ifndef BD_IR_PLAN_CHECK_POOL_H
#define BD_IR_PLAN_CHECK_POOL_H
#include "ir/plan.h"

// Of a strategy whose splits are good by themselves: whether all that reads or makes such values
// has the same samples on a rank, no more of them than i32 numbers. Errors: BD_INVALID, at the op.
BD_NODISCARD bd_status bd_plan_check_pool(bd_ctx *ctx, const bd_plan *plan, const bd_mesh *mesh,
                                          const bd_strategy *strategy, const bd_function *function);
#endif
