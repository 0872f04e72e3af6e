// How the rows of values lie in memory: one after another, but on GPUs with room between rows whose
// length would let them begin at odd addresses.
#ifndef BD_IR_PITCH_H
#define BD_IR_PITCH_H
#include "ir/module.h"

// Strides of a value's part on a rank, in elements, per dimension, of an spmd function. They are
// those of its padded local extents in row-major order; but where the module is for GPUs and the
// last extent is at least 256 halves and no multiple of 8 (a vocabulary of 50257), rows lie a
// multiple of 8 apart, and from 4096 on of 64: cuBLASLt's fast kernels want rows that begin at
// multiples of 16 bytes. What lies between rows is neither read nor written. Only values that ops
// of the function or of its peer make, and that no op but products, pointwise ones, sums and those
// of a loss touches, have such room; all of one extent do, or none, in both functions.
void bd_value_strides(const bd_module *module, const bd_function *function, bd_id value,
                      int64_t out_strides[BD_MAX_RANK]);
// Elements from the first to behind the last row, room included.
int64_t bd_value_elements(const bd_module *module, const bd_function *function, bd_id value);
#endif
