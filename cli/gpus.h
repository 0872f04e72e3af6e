// The GPUs of this machine.
#ifndef BD_CLI_GPUS_H
#define BD_CLI_GPUS_H
#include "ir/base/context.h"

// Whether programs that are started here find `wanted` GPUs, by the count of the CUDA driver, which
// heeds CUDA_VISIBLE_DEVICES. Errors: BD_EXTERNAL when there are fewer, with what is lacking.
BD_NODISCARD bd_status bd_gpus_check(bd_ctx *ctx, int wanted);
#endif
