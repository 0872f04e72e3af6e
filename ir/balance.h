// Queries of attention under a causal mask, shared so that every rank has as much to do
// (docs/decisions/015-ranks-swap-halves-of-their-queries.md).
#ifndef BD_IR_BALANCE_H
#define BD_IR_BALANCE_H
#include "ir/index.h"

#define BD_BALANCED_ATTR "balanced"

// Of attention, or its gradient, whose queries `split` cuts in n parts: the length of the 2n equal
// chunks of which each rank takes an early one and a late one. 0: the op is not shared like that,
// because its queries are whole or see as many keys each, or because they are no such chunks.
int64_t bd_balance_chunk(const bd_op *op, const bd_index_map *map, const bd_mesh *mesh,
                         const int8_t split[BD_MAX_AXES]);

// How many queries attention, or its gradient, has on all ranks, of which the op has `queries`: in
// an spmd function it may be for one half of each rank's.
int64_t bd_balance_queries(const bd_op *op, int64_t queries);

// The dimension of an operand or result that has the queries; -1: none.
int bd_balance_dim(const bd_index_map *map, const int8_t dims[BD_MAX_RANK]);
#endif
