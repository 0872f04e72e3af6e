// A whole spmd program on simulated ranks, one micro-batch: calls, tapes, collectives between
// layers, and messages between stages.
#ifndef BD_TESTS_SUPPORT_PROGRAM_H
#define BD_TESTS_SUPPORT_PROGRAM_H
#include "tests/unit/ir/support_spmd.h"

// `in`: inputs then weights, whole. The largest difference of main's results (the loss, then every
// gradient of a weight) to `wanted`, relative to each one's largest element.
double program_difference(bd_ctx *ctx, const bd_module *spmd, const bd_tensor *in,
                          double loss_scale, const bd_random_key *key, const bd_tensor *wanted);
#endif
