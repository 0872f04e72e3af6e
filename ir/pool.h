// The samples that a rank holds of a micro-batch as one pool: ops that count over them, and values
// that mean something under that one cut of the batch alone. Row r of sample b, of n rows each, is
// number b n + r, b from 0 on at each rank.
#ifndef BD_IR_POOL_H
#define BD_IR_POOL_H
#include "ir/index.h"

#define BD_POOLED_ATTR "pooled"

// Whether the op counts over the samples of its rank: `pooled=1` of sums, searches and routes, the
// items of rows, and products of rows in groups.
bool bd_op_pools(const bd_op *op);

// Per value of a function, whether it is pooled: numbers over a pool's samples, or rows that lie by
// these. Pooled is what an op makes by counting over samples, and whatever with the batch as a
// dimension is made of it; a route back (`inverse=1`) makes tokens of rows, which are not. A
// backward function restores values of `forward`, its peer, as they are there; else NULL. Lives in
// ctx->arena.
const bool *bd_pooled_values(bd_ctx *ctx, const bd_function *function, const bd_function *forward);

// The mesh axes of several ranks (bits) over which a value's samples lie in parts, and over which
// an op's do under a split. All of a pool's values and ops have the same.
unsigned bd_sample_axes(const bd_mesh *mesh, const bd_type *type, const bd_sharding *sharding);
unsigned bd_split_sample_axes(const bd_index_map *map, const bd_mesh *mesh,
                              const int8_t split[BD_MAX_AXES]);
#endif
