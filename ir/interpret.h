// The reference interpreter: float64, one rank, no plan. The semantics of every graph and train
// module.
#ifndef BD_IR_INTERPRET_H
#define BD_IR_INTERPRET_H
#include "ir/op_semantics.h"

// Runs `function` for one micro-batch of `batch` samples on `in` (param_count tensors); `*out` gets
// result_count tensors in ctx->arena. `all_values` (or NULL) receives every value, indexed by id.
BD_NODISCARD bd_status bd_interpret_function(bd_ctx *ctx, const bd_module *module,
                                             const bd_function *function, int64_t batch,
                                             const bd_tensor *in, const bd_random_key *key,
                                             bd_tensor **out_results, bd_tensor **out_all_values);

// Runs main for one micro-batch of `batch` samples. `in`: inputs then weights. train: the gradient
// of the loss sum is `loss_scale` (1/global count).
BD_NODISCARD bd_status bd_interpret_main(bd_ctx *ctx, const bd_module *module, int64_t batch,
                                         const bd_tensor *in, double loss_scale,
                                         const bd_random_key *key, bd_tensor **out_results);

// Philox4x32-10: four random words of a 128-bit counter under a 64-bit key.
void bd_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

// Uniform in [0,1) for the element `element` of sample `sample` at a random site: of word element %
// 4 of block element / 4; Philox4x32-10 (Salmon et al., SC 2011). The runtime and the kernels
// compute the same bits.
float bd_random_uniform(uint64_t seed, uint64_t step, uint32_t site, uint32_t call, uint64_t sample,
                        uint64_t element);
// The element that dropout in attention takes for the probability of `key` for `query` in a head
// (counted over the whole tensor). Two queries and two keys, both 8 apart, share a block: what a
// thread holds of a product on tensor cores.
int64_t bd_random_score(int64_t head, int64_t query, int64_t key, int64_t queries, int64_t keys);

// The 16 random bits by which an update of the logical element `element` of weight number `weight`
// is rounded, where weights have no masters.
uint32_t bd_random_rounding(uint64_t seed, uint64_t step, uint32_t weight, uint64_t element);
// What such an update stores: `value`, as f32, rounded to bf16 stochastically (Gupta et al., "Deep
// Learning with Limited Numerical Precision", ICML 2015, section 3). Of the two numbers around it
// the one further from 0 when its share of their distance, in 2^-16, and `bits` come to 2^16.
double bd_round_stochastically(double value, uint32_t bits);
#endif
