// The pass `channels-last`, function by function.
#ifndef BD_IR_PASSES_CHANNELS_LAST_H
#define BD_IR_PASSES_CHANNELS_LAST_H
#include "ir/module.h"

// A function with some of its parameters and results, all of them images, in the other order.
typedef struct bd_turned {
  const bd_function *from;
  bool *param, *result; // which are turned
  bd_function *to;      // out
  // Out, per result: whether what makes it has its channels last anyway.
  bool *is_last;
} bd_turned;
BD_NODISCARD bd_status bd_turn_function(bd_ctx *ctx, bd_turned *turned);

// Whether an op is a convolution or a pool of images in the other order: [n, c, extents..].
bool bd_has_channels_second(const bd_op *op);

// The type of an image [n, c, extents..] as [n, extents.., c].
bd_type bd_type_channels_last(const bd_type *type);
#endif
