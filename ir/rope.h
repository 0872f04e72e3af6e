// The angles of rotary position embeddings.
#ifndef BD_IR_ROPE_H
#define BD_IR_ROPE_H
#include "ir/module.h"

// How many numbers of a head, the first or the last ones, a `rope` op turns, and where they begin;
// a head has `width`.
int64_t bd_rope_turned(const bd_op *op, int64_t width);
int64_t bd_rope_first(const bd_op *op, int64_t width);
// How far the two numbers of a pair are apart, and how far a pair is from the next.
int64_t bd_rope_apart(const bd_op *op, int64_t turned);
int64_t bd_rope_step(const bd_op *op);

// Radians per position by which a `rope` op turns pair `pair` of `turned` numbers
// (docs/numerics.md); its direction is not in it.
double bd_rope_frequency(const bd_op *op, int64_t pair, int64_t turned);
// What the lengths of pairs are multiplied by.
double bd_rope_amplitude(const bd_op *op);
#endif
