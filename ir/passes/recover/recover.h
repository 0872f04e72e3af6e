// The pass `recover`, with what its user may choose.
#ifndef BD_IR_PASSES_RECOVER_RECOVER_H
#define BD_IR_PASSES_RECOVER_RECOVER_H
#include "ir/module.h"

typedef struct bd_recover_options {
  int64_t expert_capacity; // places of an expert for the tokens of a sample; 0: for all of them
} bd_recover_options;

// As bd_pass_recover, which leaves all options at 0.
BD_NODISCARD bd_status bd_recover(bd_ctx *ctx, const bd_recover_options *options,
                                  const bd_module *in, bd_module **out_module);
#endif
