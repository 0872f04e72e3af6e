// From one logical program to what each rank runs. Lives in ir because the planner's bytes and
// seconds are exact only when they are read from the very functions that codegen emits.
#ifndef BD_IR_PARTITION_H
#define BD_IR_PARTITION_H
#include "ir/plan.h"

// train -> sharded for one function pair: values get forms, ops get splits, unsaved residuals are
// recomputed: their producers are cloned into the backward function (in forward order,
// `recomputed`).
BD_NODISCARD bd_status bd_apply_strategy(bd_ctx *ctx, const bd_module *train, const bd_mesh *mesh,
                                         int64_t micro_batch, const bd_strategy *strategy,
                                         bd_function **out_forward, bd_function **out_backward);

// train -> sharded for the module: variants per strategy, stages on calls.
BD_NODISCARD bd_status bd_apply_plan(bd_ctx *ctx, const bd_module *train, const bd_plan *plan,
                                     bd_module **out_sharded);

// Per value of the strategy's forward function: whether it is made there, saved, and read by
// backward or by what backward runs again.
const bool *bd_strategy_kept(bd_ctx *ctx, const bd_module *train, const bd_strategy *strategy);

// Per op of the strategy's forward function: whether backward runs it again, for results that it
// needs and that are not saved.
const bool *bd_strategy_recomputed(bd_ctx *ctx, const bd_module *train,
                                   const bd_strategy *strategy);

// sharded -> spmd for one function (`sharded` also holds its peer): collectives become explicit
// ops, each consumer reads a value of the sharding it needs. Conversions of one value to one
// sharding are shared. A gradient's contributions are added before they are reduced when they
// agree; gradients of weights stay partial.
BD_NODISCARD bd_status bd_partition_function(bd_ctx *ctx, const bd_module *sharded,
                                             const bd_function *function, bd_function **out_spmd);

// Whether an op only moves, adds or scales elements: applied to every rank's summand it gives the
// summands of the result. Partial sums of gradients pass through such ops.
bool bd_op_keeps_sums(bd_op_kind kind);

// sharded -> spmd for the module: main keeps all calls with their stage; values that cross stages
// get send and recv, and calls whose neighbours disagree get collectives between them. Every op of
// main has its stage. Values get their segments here; their offsets come from ir/layout.h.
//
// Attributes: all_reduce {axis, combiner="sum"|"max"|"lse"}, all_gather, reduce_scatter, shard and
// mirror {axis, dim}, all_to_all {axis, from, to} (split along `from` before, along `to` after),
// send {to, tag} and recv {from, tag} (stages; a tag names one value on its way to one stage).
BD_NODISCARD bd_status bd_partition(bd_ctx *ctx, const bd_module *sharded, bd_module **out_spmd);

// The collectives (ops of one operand and result) that turn sharding `from` into `to`, appended to
// `function`; *out_value is the final value. Shortest first: reduce-scatter where a partial becomes
// split, else all-reduce; all-to-all where a split moves; shard where a replica is cut; all-gather.
BD_NODISCARD bd_status bd_reshard(bd_ctx *ctx, const bd_module *module, bd_function *function,
                                  bd_id value, const bd_sharding *to, bd_loc loc, bd_id *out_value);
// Whether a value of a backward function is the gradient of a weight of its forward function.
bool bd_is_weight_gradient(const bd_function *forward, const bd_function *backward, bd_id value);
#endif
