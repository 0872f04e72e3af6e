// Simulated ranks: runs an spmd function in float64 with every collective carried out, to hold it
// against the function it came from.
#ifndef BD_TESTS_SUPPORT_SPMD_H
#define BD_TESTS_SUPPORT_SPMD_H
#include "ir/interpret.h"

// A value on all ranks. Each rank's tensor has the whole logical shape and zeros outside its part.
typedef struct spmd_value {
  bd_tensor *rank;
} spmd_value;

spmd_value spmd_scatter(bd_ctx *ctx, const bd_module *module, const bd_sharding *sharding,
                        const bd_tensor *whole);
// Largest difference to `whole` on any rank, partial sums added up, relative to its largest
// element.
double spmd_difference(bd_ctx *ctx, const bd_module *module, const bd_sharding *sharding,
                       const spmd_value *value, const bd_tensor *whole);
// `in`: per parameter. Returns all values by id; fails when an op's operands are not what it needs.
spmd_value *spmd_run(bd_ctx *ctx, const bd_module *module, const bd_function *function,
                     const spmd_value *in, const bd_random_key *key);
// One op, on values by id.
void spmd_run_one(bd_ctx *ctx, const bd_module *module, const bd_function *function,
                  const bd_op *op, const bd_random_key *key, spmd_value *values);
#endif
