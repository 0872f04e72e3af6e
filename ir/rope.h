// The angles of rotary position embeddings.
#ifndef BD_IR_ROPE_H
#define BD_IR_ROPE_H
#include "ir/module.h"

// Radians per position by which a `rope` op turns pair `pair` of a head of `width` numbers
// (docs/numerics.md); its direction is not in it.
double bd_rope_frequency(const bd_op *op, int64_t pair, int64_t width);
#endif
